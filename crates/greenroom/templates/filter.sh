#!/bin/sh
# One JSON object a line comes in, one goes out, in the same order.
while read -r request; do
  case $request in
    *SECRET*) echo '{"action":"replace","line":"[redacted]"}' ;;
    *) echo '{"action":"pass"}' ;;
  esac
done
