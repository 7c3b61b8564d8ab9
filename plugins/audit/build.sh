#!/bin/sh
cd "$(dirname "$0")" && rustc --edition 2024 -O main.rs -o audit
