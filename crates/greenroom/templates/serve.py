for line in sys.stdin:
    request = json.loads(line)
    if "cancel" in request:
        continue
    if "hello" in request and "hook" not in request:
        reply = {"hello": {"features": ["filter.batch"]}}
    else:
        reply = answer(request)
        if "id" in request:
            reply["id"] = request["id"]
    print(json.dumps(reply), flush=True)
