#!/usr/bin/env python3
import json
import sys


def answer(request):
    if "FORBIDDEN" in json.dumps(request.get("payload", {})):
        return {"action": "block", "reason": "that word is forbidden"}
    return {"action": "pass"}


