#!/bin/sh
# One JSON object a line comes in, one goes out, in the same order.
while read -r request; do
  case $request in
    *) echo "$request" >&2; echo '{"ok":true}' ;;
  esac
done
