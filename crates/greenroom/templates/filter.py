#!/usr/bin/env python3
import json
import sys


def edit(line):
    return "[redacted]" if "SECRET" in line else line


def answer(request):
    if "items" in request:  # a batch: only what changes is answered
        edits = [[item["n"], edit(item["line"])] for item in request["items"]]
        before = {item["n"]: item["line"] for item in request["items"]}
        return {"edits": [[n, line] for n, line in edits if line != before[n]]}
    line = edit(request.get("line", ""))
    return {"action": "replace", "line": line} if line != request.get("line") else {"action": "pass"}


