"""A TCP relay on loopback that holds everything back for a while in either direction: a long way to a host that is near.

Run: python tests/bench/delay.py ADDRESS PORT MILLISECONDS   (each way; prints the port that it listens on, ends with its standard input)
"""

import asyncio
import sys
from collections import deque


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Each piece leaves when its time has come; pieces that are on their way do not hold each other up."""
    loop, pieces, more = asyncio.get_running_loop(), deque[tuple[float, bytes]](), asyncio.Event()

    async def read() -> None:
        data = b"first"
        while data:
            data = await reader.read(65_536)
            pieces.append((loop.time() + delay_s, data))
            more.set()

    reading = asyncio.ensure_future(read())
    try:
        while True:
            await more.wait()
            while pieces:
                due, data = pieces.popleft()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not data:
                    return
                writer.write(data)
                await writer.drain()
            more.clear()
    except ConnectionError:
        pass
    finally:
        reading.cancel()
        writer.close()


async def main(address: str, port: int, delay_s: float) -> None:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * delay_s)  # the handshake of a connection goes there and back
        far_reader, far_writer = await asyncio.open_connection(address, port)
        await asyncio.gather(carry(reader, far_writer, delay_s), carry(far_reader, writer, delay_s), return_exceptions=True)

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1000))
