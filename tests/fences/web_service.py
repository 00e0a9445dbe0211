"""A service over HTTP that keeps two values in files, one of them behind the middleware: as an application of WSGI and of ASGI. The folder
is WEB_SERVICE_FOLDER. POST /bare and /fenced replace a value, GET reads it. While the file `hold` exists, POST waits."""

import asyncio
import os
import time
from pathlib import Path

from holdfast.fence import FileFence, web

FOLDER = Path(os.environ.get("WEB_SERVICE_FOLDER", "."))


def resource_of(path):
    return "stale/web" if path == "/fenced" else None


def change(path, body):
    """Returns the answer. The file `waiting` tells that a request is held."""
    place = FOLDER / path.strip("/").replace("/", "-")
    if (FOLDER / "hold").exists() and (FOLDER / "hold").read_text(encoding="ascii") == body.decode():
        (FOLDER / "waiting").touch()
        while (FOLDER / "hold").exists():
            time.sleep(0.01)
    new = place.with_name(f"{place.name}.{os.getpid()}")
    new.write_bytes(body)
    new.replace(place)
    return b"written\n"


def read(path):
    return (FOLDER / path.strip("/").replace("/", "-")).read_bytes()


def plain_wsgi(environ, start_response):
    if environ["REQUEST_METHOD"] == "GET":
        body = read(environ["PATH_INFO"])
    else:
        body = change(environ["PATH_INFO"], environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    yield body


async def plain_asgi(scope, receive, send):
    assert scope["type"] == "http"
    sent = (await receive())["body"]
    if scope["method"] == "GET":
        body = read(scope["path"])
    else:
        body = await asyncio.get_running_loop().run_in_executor(None, change, scope["path"], sent)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


wsgi = web.FenceWSGI(plain_wsgi, FileFence(FOLDER / "marks"), lambda environ: resource_of(environ["PATH_INFO"]))
asgi = web.FenceASGI(plain_asgi, FileFence(FOLDER / "marks"), lambda scope: resource_of(scope["path"]))
