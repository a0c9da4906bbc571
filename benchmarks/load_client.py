"""What one core of the load client takes: `python -m benchmarks.load_client [--in-flight N] [--events N]`.

A server in a process of its own sends server-sent events of some 300 bytes, each in a write of its own, as fast as
asked; the client stamps and keeps them, and reads them as JSON when their request has ended, as in a run. Printed: the
events that came per second, the client's CPU per event, and how late its event loop was (on a busy machine that is the
machine's lateness too).
"""

import argparse
import asyncio
import json
import multiprocessing
import time
from contextlib import suppress

from dflash_bench.runners.base import Load
from dflash_bench.runners.client.load import Address, Traffic, Wire
from dflash_bench.runners.server.process import free_port

EVENT = json.dumps(
    {
        "id": "cmpl-1",
        "object": "text_completion",
        "choices": [{"index": 0, "text": "abc", "token_ids": [1, 2, 3], "finish_reason": None}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42},
        "system_fingerprint": "x" * 100,
    }
).encode()
GAPS_S = (0.05, 0.012, 0.006, 0.003, 0.0)


def serve(port: int, num_events: int) -> None:
    """Answer every POST with `num_events` events; its path says the seconds between them."""
    data = b"data: " + EVENT + b"\n\n"
    chunk = f"{len(data):x}\r\n".encode() + data + b"\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path = head.split(b" ", 2)[:2]
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                if method == b"GET":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                    continue
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n"
                )
                for _ in range(num_events):
                    writer.write(chunk)
                    await writer.drain()
                    await asyncio.sleep(float(path[1:]))
                writer.write(b"0\r\n\r\n")

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", port) as server:
            await server.serve_forever()

    asyncio.run(run())


def measure(port: int, gap_s: float, in_flight: int) -> str:
    """Take three requests a slot, and return a line of figures."""
    wires = [Wire(f"r{i}", f"/{gap_s}", {"prompt": [1] * 100}) for i in range(3 * in_flight)]
    traffic = Traffic(Address(f"http://127.0.0.1:{port}"), wires, Load(in_flight))
    num_events, cpu_s, began_s, ended_s = 0, time.process_time(), time.perf_counter(), 0.0
    for exchange in traffic:
        if exchange.error is not None:
            raise SystemExit(exchange.error)
        num_events += sum(bool(json.loads(data)) for _, data in exchange.events)
        ended_s = exchange.ended_s
    cpu_s = time.process_time() - cpu_s
    client = traffic.client
    lag = "too short to tell"
    if client is not None:
        lag = f"{1e3 * client.lag_p50_s:.1f} / {1e3 * client.lag_p99_s:.1f} ms"
    rate = num_events / (ended_s - began_s)
    share = cpu_s / (ended_s - began_s)
    return f"{rate:10,.0f}  {1e6 * cpu_s / num_events:10.0f}  {share:10.0%}  {lag}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--events", type=int, default=128)
    asked = parser.parse_args()
    port = free_port()
    server = multiprocessing.Process(target=serve, args=(port, asked.events), daemon=True)
    server.start()
    time.sleep(1)
    print(f"{asked.in_flight} in flight, {len(EVENT)} bytes an event")
    print("  events/s    us/event   of a core  lag p50 / p99")
    for gap_s in GAPS_S:
        print(measure(port, gap_s, asked.in_flight))
    server.terminate()
    server.join()


if __name__ == "__main__":
    main()
