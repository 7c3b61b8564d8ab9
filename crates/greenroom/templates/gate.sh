#!/bin/sh
# One JSON object a line comes in, one goes out, in the same order.
while read -r request; do
  case $request in
    *FORBIDDEN*) echo '{"action":"block","reason":"that word is forbidden"}' ;;
    *) echo '{"action":"pass"}' ;;
  esac
done
