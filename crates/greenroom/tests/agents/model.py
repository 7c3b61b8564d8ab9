"""A model that does what it is told: `WRITE file` and `RUN command` in a prompt become calls of the agent's tools, everything
else a sentence. Speaks Anthropic Messages and OpenAI Responses, as far as Claude Code and Codex need them, and the end of
OAuth that refreshes Codex's tokens. Remembers how many messages each request carried and which token it came with."""
import base64
import json
import re
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ORDER = re.compile(r"^(WRITE|RUN) (.+)$", re.M)


def jwt(claims):
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
    return ".".join([part({"alg": "none"}), part(claims), part("signed")])


def chatgpt_token(name, seconds):
    """A token of the account `acct-1` that ends in so many seconds."""
    account = {"chatgpt_account_id": "acct-1", "chatgpt_plan_type": "plus", "chatgpt_user_id": "user-1"}
    ends = int(time.time() + seconds)
    return jwt({"jti": name, "exp": ends, "email": "a@example.com", "https://api.openai.com/auth": account})


def texts(content):
    if isinstance(content, str):
        return [content]
    return [part.get("text", "") for part in content or [] if isinstance(part, dict)]


class Model(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []
        self.refreshed = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def last(self, api):
        return [it for it in self.requests if it["api"] == api and it["main"]][-1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.close_connection = True

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.answer(200, {"data": [], "models": []})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        path = self.path.split("?")[0]
        if path.endswith("/oauth/token"):
            return self.refresh()
        if path.endswith("/count_tokens"):
            return self.answer(200, {"input_tokens": 10})
        if path.endswith("/messages"):
            return self.anthropic(body)
        if path.endswith("/responses"):
            return self.openai(body)
        self.answer(200, {})

    def note(self, api, main, messages):
        token = self.headers.get("Authorization") or self.headers.get("x-api-key") or ""
        self.server.requests.append({"api": api, "main": main, "messages": messages, "token": token})

    def refresh(self):
        self.server.refreshed += 1
        name = f"refreshed-{self.server.refreshed}"
        token = chatgpt_token(name, 3600)
        self.answer(200, {"id_token": token, "access_token": token, "refresh_token": f"refresh-token-{name}"})

    def anthropic(self, body):
        messages = body.get("messages") or []
        tools = {tool.get("name") for tool in body.get("tools") or []}
        self.note("anthropic", bool(tools), len(messages))
        spoke = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
        new = messages[spoke[-1] + 1:] if spoke else messages
        parts = [part for message in new if isinstance(message.get("content"), list) for part in message["content"]]
        told = any(part.get("type") == "tool_result" for part in parts)
        orders = ORDER.findall("\n".join(text for message in new for text in texts(message.get("content"))))
        call = None
        if orders and not told:
            verb, rest = orders[-1]
            call = ("Bash", {"command": rest, "description": "as told"}) if verb == "RUN" else None
            call = call or ("Write", {"file_path": rest, "content": "written\n"})
            call = call if call[0] in tools else None
        usage = {"input_tokens": 10, "output_tokens": 5}
        head = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "content": [],
                "model": body.get("model"), "stop_reason": None, "stop_sequence": None, "usage": usage}
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "It is done."}
        if call:
            block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:20]}", "name": call[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        reason = "tool_use" if call else "end_turn"
        if not body.get("stream"):
            content = {"type": "text", "text": "It is done."}
            return self.answer(200, {**head, "content": [content], "stop_reason": "end_turn"})
        self.stream([
            {"type": "message_start", "message": head},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ])

    def openai(self, body):
        items = [it for it in body.get("input") or [] if isinstance(it, dict)]
        tools = {tool.get("name") for tool in body.get("tools") or []}
        self.note("openai", bool(tools), len(items))
        said = [it for it in items if it.get("role") == "user"]
        after = items[items.index(said[-1]) + 1:] if said else []
        told = any("output" in (it.get("type") or "") for it in after)
        orders = ORDER.findall("\n".join(texts(said[-1].get("content")))) if said else []
        call = None
        if orders and not told:
            verb, rest = orders[-1]
            command = rest if verb == "RUN" else f"echo written > {rest}"
            shapes = {"exec_command": {"cmd": command}, "shell_command": {"command": command},
                      "shell": {"command": ["bash", "-c", command]}}
            call = next(((name, shape) for name, shape in shapes.items() if name in tools), None)
        if call:
            item = {"type": "function_call", "id": f"fc_{uuid.uuid4().hex}", "call_id": f"call_{uuid.uuid4().hex[:20]}",
                    "name": call[0], "arguments": json.dumps(call[1]), "status": "completed"}
        else:
            text = {"type": "output_text", "text": "It is done.", "annotations": []}
            item = {"type": "message", "id": f"msg_{uuid.uuid4().hex}", "role": "assistant", "status": "completed",
                    "content": [text]}
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
                 "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        response = {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "created_at": int(time.time()),
                    "model": body.get("model"), "status": "in_progress", "output": []}
        self.stream([
            {"type": "response.created", "response": response},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed",
             "response": {**response, "status": "completed", "output": [item], "usage": usage}},
        ])
