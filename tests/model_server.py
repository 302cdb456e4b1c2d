#!/usr/bin/env python3
"""A scripted model that speaks every wire of PAR, whole and streamed, with and without faults.

Run it by hand and ask it with PAR:

    $ python3 tests/model_server.py --port 8099
    listening on http://127.0.0.1:8099/v1

    $ PAR_LLM__PROVIDER=openai PAR_LLM__MODEL=m PAR_LLM__BASE_URL=http://127.0.0.1:8099/v1 \\
          par run 'how is this server doing?'

The wires are `openai`, `openai_responses`, `anthropic`, `gemini` and `ollama`. Every question gets a
text with two parallel calls, `health_check` and `list_dir` of /var/log, and then an answer. A
question that contains `fault: NAME` gets that fault in its first answer; `--faults` lists the names.
A question that contains `stop: NAME` gets one answer that ends for that reason; `--stops` lists them.
`--pause MS` waits between two frames of a stream, so that the words are seen to come.

`tests/it/outcomes.rs` runs it. It needs nothing but the standard library.
"""

import argparse
import base64
import gzip
import json
import re
import socket
import sys
import threading
import time
from collections import Counter

TEXT = ["I lo\u00f6k at ", "it."]
ANSWER = ["All is ", "well."]
CALLS = [("a", "health_check", {}), ("b", "list_dir", {"path": "/var/log"})]
USAGE = (7, 3)

# A question in which a fault has no meaning for whole answers gets the same fault there, if it can:
# a cut inside a frame is then a cut inside the body.
FAULTS = [
    "none",
    "crlf",
    "bom",
    "content-type-of-text",
    "page-of-html",
    "empty-body",
    "cut-inside-a-character",
    "cut-inside-an-event",
    "cut-inside-an-argument",
    "cut-before-the-end",
    "connection-broken",
    "hang-before-the-head",
    "hang-in-the-middle",
    "429-then-good",
    "429-without-a-delay",
    "429-for-an-hour",
    "500",
    "401",
    "400",
    "100-mb",
    "5-mb-without-a-length",
    "gzip-bomb",
    "reports-a-failure",
    "malformed-event",
    "calls-with-one-id",
    "calls-without-an-id",
    "a-thousand-calls",
    "an-unknown-tool",
    "redirect",
    "the-key",
    "the-key-in-base64",
    "the-key-in-hex",
    "the-key-in-percent",
    "the-key-in-json",
]


# Why an answer ends, and what each wire calls it. A wire without such a reason is not named.
REASONS = {
    "length": {
        "openai": "length",
        "openai_responses": "max_output_tokens",
        "anthropic": "max_tokens",
        "gemini": "MAX_TOKENS",
        "ollama": "length",
    },
    "content-filter": {"openai": "content_filter", "openai_responses": "content_filter", "gemini": "SAFETY"},
    "refusal": {"openai": "stop", "openai_responses": None, "anthropic": "refusal"},
    "empty": {
        "openai": "stop",
        "openai_responses": None,
        "anthropic": "end_turn",
        "gemini": "STOP",
        "ollama": "stop",
    },
    "truncated": {"ollama": "stop"},
    "other": {
        "openai": "no_resources",
        "openai_responses": "no_resources",
        "anthropic": "pause_turn",
        "gemini": "MALFORMED_FUNCTION_CALL",
        "ollama": "load",
    },
}

# The reason, the text, whether there is a call, and the tokens of the reply.
STOPS = {
    "length": ("length", TEXT, False, 3),
    "length-in-a-call": ("length", TEXT, True, 3),
    "length-after-thinking": ("length", [], False, 3),
    "length-without-room": ("length", [], False, 0),
    "refusal": ("refusal", ["I will ", "not."], False, 3),
    "content-filter": ("content-filter", TEXT, False, 3),
    "content-filter-without-text": ("content-filter", [], False, 0),
    "empty": ("empty", [], False, 3),
    "truncated": ("truncated", TEXT, True, 3),
    "other": ("other", TEXT, False, 3),
    "other-without-text": ("other", [], False, 3),
}
CONTEXT_TOKENS = 16384


def wire_of(path):
    path = path.split("?")[0]
    if path.endswith("/chat/completions"):
        return "openai"
    if path.endswith("/responses"):
        return "openai_responses"
    if path.endswith("/messages"):
        return "anthropic"
    if "enerateContent" in path:
        return "gemini"
    if path.endswith("/api/chat"):
        return "ollama"
    return None


def whole(wire, text, calls):
    """The body of an answer that comes whole."""
    text = "".join(text)
    if wire == "openai":
        message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
                for i, n, a in calls
            ]
        reason = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1]}
        return {"model": "m", "choices": [{"message": message, "finish_reason": reason}], "usage": usage}
    if wire == "openai_responses":
        output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
        output += [
            {"type": "function_call", "call_id": i, "name": n, "arguments": json.dumps(a)} for i, n, a in calls
        ]
        usage = {"input_tokens": USAGE[0], "output_tokens": USAGE[1]}
        return {"model": "m", "status": "completed", "output": output, "usage": usage}
    if wire == "anthropic":
        content = [{"type": "text", "text": text}]
        content += [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in calls]
        usage = {"input_tokens": USAGE[0], "output_tokens": USAGE[1]}
        reason = "tool_use" if calls else "end_turn"
        return {"model": "m", "content": content, "stop_reason": reason, "usage": usage}
    if wire == "gemini":
        parts = [{"text": text}] + [{"functionCall": {"id": i, "name": n, "args": a}} for i, n, a in calls]
        usage = {"promptTokenCount": USAGE[0], "candidatesTokenCount": USAGE[1]}
        candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
        return {"modelVersion": "m", "candidates": [candidate], "usageMetadata": usage}
    message = {"content": text}
    if calls:
        message["tool_calls"] = [{"id": i, "function": {"name": n, "arguments": a}} for i, n, a in calls]
    counts = {"prompt_eval_count": USAGE[0], "eval_count": USAGE[1]}
    return {"model": "m", "message": message, "done": True, "done_reason": "stop"} | counts


def frames(wire, text, calls):
    """The same as a stream: the JSON of each frame."""
    out = []
    if wire == "openai":
        delta = lambda d: out.append({"model": "m", "choices": [{"delta": d}]})
        for piece in text:
            delta({"content": piece})
        for at, (i, n, a) in enumerate(calls):
            a = json.dumps(a)
            head = {"index": at, "id": i, "function": {"name": n, "arguments": a[: len(a) // 2]}}
            delta({"tool_calls": [head]})
            delta({"tool_calls": [{"index": at, "function": {"arguments": a[len(a) // 2 :]}}]})
        out.append({"choices": [{"delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]})
        out.append({"choices": [], "usage": {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1]}})
        return [dumped(one) for one in out] + ["[DONE]"]
    if wire == "openai_responses":
        out.append({"type": "response.created", "response": {}})
        for piece in text:
            out.append({"type": "response.output_text.delta", "output_index": 0, "delta": piece})
        for at, (_, _, a) in enumerate(calls):
            one = {"type": "response.function_call_arguments.delta", "output_index": at + 1}
            out.append(one | {"delta": json.dumps(a)})
        out.append({"type": "response.completed", "response": whole(wire, text, calls)})
    elif wire == "anthropic":
        start = {"model": "m", "usage": {"input_tokens": USAGE[0]}}
        out.append({"type": "message_start", "message": start})
        block = lambda at, b: out.append({"type": "content_block_start", "index": at, "content_block": b})
        delta = lambda at, d: out.append({"type": "content_block_delta", "index": at, "delta": d})
        block(0, {"type": "text", "text": ""})
        for piece in text:
            delta(0, {"type": "text_delta", "text": piece})
        for at, (i, n, a) in enumerate(calls):
            a = json.dumps(a)
            block(at + 1, {"type": "tool_use", "id": i, "name": n, "input": {}})
            for half in (a[: len(a) // 2], a[len(a) // 2 :]):
                delta(at + 1, {"type": "input_json_delta", "partial_json": half})
        reason = {"stop_reason": "tool_use" if calls else "end_turn"}
        out.append({"type": "message_delta", "delta": reason, "usage": {"output_tokens": USAGE[1]}})
        out.append({"type": "message_stop"})
    elif wire == "gemini":
        part = lambda p: out.append({"candidates": [{"content": {"parts": [p]}}], "modelVersion": "m"})
        for piece in text:
            part({"text": piece})
        for i, n, a in calls:
            part({"functionCall": {"id": i, "name": n, "args": a}})
        usage = {"promptTokenCount": USAGE[0], "candidatesTokenCount": USAGE[1]}
        out.append({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage})
    else:
        message = lambda m: out.append({"model": "m", "message": m, "done": False})
        for piece in text:
            message({"content": piece})
        for i, n, a in calls:
            message({"content": "", "tool_calls": [{"id": i, "function": {"name": n, "arguments": a}}]})
        counts = {"prompt_eval_count": USAGE[0], "eval_count": USAGE[1]}
        out.append({"model": "m", "message": {"content": ""}, "done": True, "done_reason": "stop"} | counts)
    return [dumped(one) for one in out]


def dumped(value):
    return json.dumps(value, ensure_ascii=False)


def framed(wire, frame, end="\n"):
    return frame + end if wire == "ollama" else f"event: message{end}data: {frame}{end}{end}"


def stopped(stop, wire):
    """The frames of an answer that ends like this, and the same answer whole; None if it cannot."""
    named, text, has_call, written = STOPS[stop]
    if wire not in REASONS[named]:
        return None
    reason, read = REASONS[named][wire], CONTEXT_TOKENS if stop == "truncated" else USAGE[0]
    calls = CALLS[:1] if stop == "truncated" else CALLS[1:] if has_call else []
    one, many = whole(wire, text, calls), frames(wire, text, calls)
    spoken = "".join(text)
    if wire == "openai":
        arguments = json.dumps(CALLS[1][2])[:-3]
        one["choices"][0]["finish_reason"] = reason
        if calls:
            one["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
        if named == "refusal":
            one["choices"][0]["message"] |= {"content": None, "refusal": spoken}
        last = {"choices": [{"delta": {}, "finish_reason": reason}]}
        delta = [{"refusal" if named == "refusal" else "content": piece} for piece in text]
        if calls:
            function = {"name": CALLS[1][1], "arguments": arguments}
            delta.append({"tool_calls": [{"index": 0, "id": "b", "function": function}]})
        out = [{"model": "m", "choices": [{"delta": piece}]} for piece in delta] + [last]
        usage = {"prompt_tokens": read, "completion_tokens": written}
        one["usage"] = usage
        many = [dumped(frame) for frame in [*out, {"choices": [], "usage": usage}]] + ["[DONE]"]
    elif wire == "openai_responses":
        one["usage"] = {"input_tokens": read, "output_tokens": written}
        if reason == "no_resources":
            one["status"] = reason
        elif reason is not None:
            one |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
        if named == "refusal":
            one["output"][0]["content"] = [{"type": "refusal", "refusal": spoken}]
        if calls:
            one["output"][1]["arguments"] = json.dumps(CALLS[1][2])[:-3]
        end = "incomplete" if one["status"] == "incomplete" else "completed"
        said = "refusal" if named == "refusal" else "output_text"
        out = [{"type": f"response.{said}.delta", "output_index": 0, "delta": piece} for piece in text]
        many = [dumped(frame) for frame in [*out, {"type": f"response.{end}", "response": one}]]
    elif wire == "anthropic":
        one |= {"stop_reason": reason, "usage": {"input_tokens": read, "output_tokens": written}}
        if calls:
            one["content"][1]["input"] = {"path": "/var/l"}
        many = many[: -3 if calls else -2]
        many = [frame.replace('"path\\": \\""', '"path\\": \\"/var/l\\""') for frame in many]
        last = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": written}}
        many += [dumped(last), dumped({"type": "message_stop"})]
    elif wire == "gemini":
        usage = {"promptTokenCount": read, "candidatesTokenCount": written}
        one["candidates"][0]["finishReason"] = reason
        one["usageMetadata"] = usage
        if not text and not calls:
            del one["candidates"][0]["content"]
        many[-1] = dumped({"candidates": [{"finishReason": reason}], "usageMetadata": usage})
    else:
        counts = {"done_reason": reason, "prompt_eval_count": read, "eval_count": written}
        one |= counts
        many[-1] = dumped({"model": "m", "message": {"content": ""}, "done": True} | counts)
    return many, one


class Answer:
    """The bytes of an answer, in pieces."""

    def __init__(self, wire, is_streamed, text, calls, end="\n"):
        self.kind = "text/event-stream" if is_streamed else "application/json"
        self.status, self.headers, self.length = 200, "", None
        if is_streamed:
            self.pieces = [framed(wire, one, end).encode() for one in frames(wire, text, calls)]
        else:
            self.pieces = [dumped(whole(wire, text, calls)).encode()]

    @classmethod
    def stopped(cls, stop, wire, is_streamed):
        made, (many, one) = cls(wire, is_streamed, [], []), stopped(stop, wire)
        made.pieces = [framed(wire, frame).encode() for frame in many] if is_streamed else [dumped(one).encode()]
        return made

    def body(self):
        return b"".join(self.pieces)

    def set(self, body, kind=None):
        self.pieces = [body]
        self.kind = kind or self.kind


def cut(answer, mark, past):
    body = answer.body()
    at = body.find(mark.encode())
    answer.set(body[: at + past])


KEY_FORMS = {
    "the-key": lambda key: key,
    "the-key-in-base64": lambda key: base64.b64encode(key.encode()).decode(),
    "the-key-in-hex": lambda key: key.encode().hex(),
    "the-key-in-percent": lambda key: "".join(f"%{byte:02X}" for byte in key.encode()),
    "the-key-in-json": lambda key: json.dumps(json.dumps(key)),
}


def with_fault(fault, wire, is_streamed, key, tries):
    """The answer to the `tries`th request with this fault; None holds the connection."""
    text, calls, end = TEXT, CALLS, "\n"
    if fault == "crlf":
        end = "\r\n"
    if fault == "calls-with-one-id":
        calls = [("a", *call[1:]) for call in CALLS]
    if fault == "calls-without-an-id":
        calls = [(None, *call[1:]) for call in CALLS]
    if fault == "a-thousand-calls":
        calls = [CALLS[0]] * 1000
    if fault == "an-unknown-tool":
        calls = [("a", "no_such_tool", {})]
    if fault in KEY_FORMS:
        form = KEY_FORMS[fault](key)
        text, calls = ["the key is " + form[:7], form[7:] + "."], []
    answer = Answer(wire, is_streamed, text, calls, end)
    if fault == "bom":
        answer.pieces.insert(0, b"\xef\xbb\xbf")
    if fault == "content-type-of-text":
        answer.kind = "text/plain"
    if fault == "page-of-html":
        answer.set(b"<html>not found</html>", "text/html")
    if fault == "empty-body":
        answer.set(b"")
    if fault == "cut-inside-a-character":
        cut(answer, "\u00f6", 1)
    if fault == "cut-inside-an-event":
        cut(answer, "it.", 1)
    if fault == "cut-inside-an-argument":
        cut(answer, "log", 1)
    if fault == "cut-before-the-end":
        last = 4 if wire == "openai" else 1
        answer.pieces = answer.pieces[:-last] if is_streamed else [answer.body()[:-1]]
    if fault in ("connection-broken", "hang-in-the-middle"):
        answer.length = 1 << 20
        answer.pieces = answer.pieces[:-3] if is_streamed else [answer.body()[:-9]]
    if fault == "hang-before-the-head":
        return None
    if fault == "429-then-good" and tries == 1:
        answer.status, answer.headers = 429, "retry-after: 0\r\n"
        answer.set(b"{}")
    if fault in ("429-without-a-delay", "429-for-an-hour"):
        answer.status = 429
        answer.headers = "retry-after: 3600\r\n" if fault == "429-for-an-hour" else ""
        answer.set(b"{}")
    if fault in ("400", "401", "500"):
        answer.status = int(fault)
        answer.set(b'{"error":{"message":"no \\u001b[2J"}}')
    if fault == "100-mb":
        answer.length = 100 << 20
    if fault == "5-mb-without-a-length":
        answer.length = -1
        filler = b" \n" if wire == "ollama" or not is_streamed else b": \n"
        answer.pieces = [filler * (5 << 20 >> 1)]
    if fault == "gzip-bomb":
        answer.headers = "content-encoding: gzip\r\n"
        answer.set(gzip.compress(bytes(1 << 20)) * 64)
    if fault in ("reports-a-failure", "malformed-event"):
        failure = '{"type":"error","error":{"message":"overloaded"}}' if fault == "reports-a-failure" else '{"a":"\x01"}'
        if is_streamed:
            answer.pieces = answer.pieces[:-3] + [framed(wire, failure).encode()]
        else:
            answer.set(failure.encode())
    if fault == "redirect":
        answer.status, answer.headers = 302, "location: http://127.0.0.1:1/\r\n"
        answer.set(b"")
    return answer


class ModelServer:
    def __init__(self, port, pause):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.pause, self.tries, self.lock = pause, Counter(), threading.Lock()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        with connection:
            try:
                self.answer(connection)
            except OSError:
                pass  # The client has read enough.

    def answer(self, connection):
        reader = connection.makefile("rb")
        path = reader.readline().decode("latin-1").split(" ")[1]
        length, key = 0, ""
        while (line := reader.readline().decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            if name == "content-length":
                length = int(value)
            if name in ("authorization", "x-api-key", "x-goog-api-key"):
                key = value.removeprefix("Bearer ")
        body = reader.read(length).decode()
        wire = wire_of(path)
        if wire is None:
            connection.sendall(b"HTTP/1.1 404 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        is_streamed = "stream" in path or '"stream":true' in body
        has_results = any(
            mark in body
            for mark in ('"tool_call_id"', '"function_call_output"', '"tool_result"', '"functionResponse"', '"role":"tool"')
        )
        if has_results:
            return self.send(connection, Answer(wire, is_streamed, ANSWER, []), False)
        stop = re.search(r"stop: ([a-z0-9-]+)", body)
        if stop and wire in REASONS[STOPS[stop.group(1)][0]]:
            return self.send(connection, Answer.stopped(stop.group(1), wire, is_streamed), False)
        fault = re.search(r"fault: ([a-z0-9-]+)", body)
        fault = fault.group(1) if fault else "none"
        with self.lock:
            self.tries[body] += 1
            tries = self.tries[body]
        self.send(connection, with_fault(fault, wire, is_streamed, key, tries), fault == "hang-in-the-middle")

    def send(self, connection, answer, holds):
        if answer is not None:
            length = {None: f"content-length: {len(answer.body())}\r\n", -1: ""}.get(answer.length)
            length = f"content-length: {answer.length}\r\n" if length is None else length
            head = f"HTTP/1.1 {answer.status} x\r\nconnection: close\r\ncontent-type: {answer.kind}\r\n"
            connection.sendall((head + length + answer.headers + "\r\n").encode())
            for piece in answer.pieces:
                connection.sendall(piece)
                time.sleep(self.pause)
        if answer is None or holds:
            # Until the client has had enough.
            connection.recv(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="the port; 0 takes a free one")
    parser.add_argument("--pause", type=int, default=0, help="milliseconds between two frames of a stream")
    parser.add_argument("--faults", action="store_true", help="list the faults and end")
    parser.add_argument("--stops", action="store_true", help="list the reasons to stop, with their wires, and end")
    asked = parser.parse_args()
    if asked.faults:
        print("\n".join(FAULTS))
        return
    if asked.stops:
        print("\n".join(" ".join([stop, *REASONS[STOPS[stop][0]]]) for stop in STOPS))
        return
    server = ModelServer(asked.port, asked.pause / 1000)
    print(f"listening on http://127.0.0.1:{server.listener.getsockname()[1]}/v1", flush=True)
    server.serve()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
