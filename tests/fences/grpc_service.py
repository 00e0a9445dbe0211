"""A service over gRPC that keeps two values in files, one of them behind the interceptor:  grpc_service.py FOLDER

Prints its port. Set and SetBare replace a value, SetAndList also streams it back in pieces, SetMany takes a stream. While the file `hold`
exists, the handlers of Set and SetAndList wait."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sdk" / "python"))

from holdfast.fence import FileFence  # noqa: E402
from holdfast.fence.grpc import FenceInterceptor  # noqa: E402

FENCED = {"/test.Values/Set", "/test.Values/SetAndList", "/test.Values/SetMany"}


def resource_of(method, request):
    return "stale/grpc" if method in FENCED else None


def main(folder):
    folder = Path(folder)

    def wait_while_held():
        while (folder / "hold").exists():
            (folder / "waiting").touch()
            time.sleep(0.01)

    def set_value(place):
        def run(request, context):
            wait_while_held()
            (folder / place).write_bytes(request)
            return b"ok"
        return run

    def set_and_list(request, context):
        wait_while_held()
        (folder / "fenced").write_bytes(request)
        for byte in request:
            yield bytes([byte])

    def set_many(requests, context):
        for request in requests:
            (folder / "fenced").write_bytes(request)
        return b"ok"

    def list_bare(request, context):
        yield (folder / "bare").read_bytes()

    handlers = {
        "Set": grpc.unary_unary_rpc_method_handler(set_value("fenced")),
        "SetBare": grpc.unary_unary_rpc_method_handler(set_value("bare")),
        "SetAndList": grpc.unary_stream_rpc_method_handler(set_and_list),
        "SetMany": grpc.stream_unary_rpc_method_handler(set_many),
        "ListBare": grpc.unary_stream_rpc_method_handler(list_bare),
    }
    fence = FileFence(folder / "marks")
    server = grpc.server(ThreadPoolExecutor(4), interceptors=[FenceInterceptor(fence, resource_of, wait=0.5)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Values", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(None)


main(*sys.argv[1:])
