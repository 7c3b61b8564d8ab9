#!/usr/bin/env python3
"""Replaces ACCT-12345678 by ACCT-********. Speaks batches: one request for many lines."""
import json
import re
import sys

ACCOUNT = re.compile(r"ACCT-[0-9]{6,}")


def edit(line):
    return ACCOUNT.sub(lambda found: "ACCT-" + "*" * (len(found.group()) - 5), line)


def answer(request):
    if "items" in request:  # a batch is answered by what changes
        edited = [(item["n"], item["line"], edit(item["line"])) for item in request["items"]]
        return {"edits": [[n, after] for n, before, after in edited if before != after]}
    before = request.get("line", "")
    after = edit(before)
    return {"action": "pass"} if before == after else {"action": "replace", "line": after}


for line in sys.stdin:
    request = json.loads(line)
    if "cancel" in request:
        continue
    if "hello" in request and "hook" not in request:
        reply = {"hello": {"name": "redact-py", "features": ["filter.batch"]}}
    else:
        reply = answer(request)
        if "id" in request:
            reply["id"] = request["id"]
    print(json.dumps(reply), flush=True)
