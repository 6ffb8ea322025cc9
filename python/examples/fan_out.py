"""Many sandboxes at once: each part of a task in one of its own, so many at a time, and all of them gone when it ends.

$ python fan_out.py
primes below 80000: 7837, in 8 sandboxes
"""

from __future__ import annotations

import asyncio

import confine

COUNT = "import sys; a, b = map(int, sys.argv[1:]); print(sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(max(a, 2), b)))"


async def part(client: confine.AsyncClient, room: asyncio.Semaphore, first: int, last: int) -> int:
    """The number of primes in a range."""
    async with room, await client.sandbox("standard") as box:
        result = await box.exec(["python3", "-c", COUNT, str(first), str(last)], time_limit=60, check=True)
        return int(result.stdout_text)


async def main() -> None:
    """Counts primes. Whoever cancels this, by Ctrl-C for instance, ends every sandbox."""
    size, room = 10_000, asyncio.Semaphore(4)
    async with confine.AsyncClient() as client:
        parts = [asyncio.create_task(part(client, room, n, n + size)) for n in range(0, 80_000, size)]
        try:
            counts = await asyncio.gather(*parts)
        finally:  # one has failed, or this is cancelled
            for task in parts:
                task.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
    print(f"primes below 80000: {sum(counts)}, in {len(counts)} sandboxes")


if __name__ == "__main__":
    asyncio.run(main())
