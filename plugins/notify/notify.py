#!/usr/bin/env python3
"""Tells the desktop; where there is none, writes to notifications.log in the plugin's own directory for data."""
import json
import os
import subprocess
import sys


def words(request):
    payload = request.get("payload", {})
    if request.get("hook") == "alert.emit":
        return "greenroom: " + payload.get("severity", "alert"), payload.get("text", "")
    name = payload.get("name") or request.get("session_id", "a session")
    return "greenroom", "%s ended: %s" % (name, payload.get("status", "done"))


def notify(title, text):
    try:
        # "--" and a list: what a session prints is never an option and never a shell's.
        done = subprocess.run(["notify-send", "--", title, text], timeout=1.5, capture_output=True)
        if done.returncode == 0:
            return "shown"
    except (OSError, subprocess.SubprocessError):
        pass
    with open(os.path.join(os.environ["GREENROOM_PLUGIN_DATA"], "notifications.log"), "a") as log:
        log.write(json.dumps({"title": title, "text": text}) + "\n")
    return "written"


for line in sys.stdin:
    request = json.loads(line)
    if "cancel" in request:
        continue
    if "hello" in request and "hook" not in request:
        reply = {"hello": {"name": "notify", "features": []}}
    else:
        reply = {"ok": True, "how": notify(*words(request))}
        if "id" in request:
            reply["id"] = request["id"]
    print(json.dumps(reply), flush=True)
