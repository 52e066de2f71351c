# stdin: "3 4\n"
# stdout: "7\n"
# cpu: 2000
import asyncio
async def main():
    a, b = map(int, input().split())
    await asyncio.sleep(0.001)
    print(await asyncio.to_thread(lambda: a + b) if hasattr(asyncio, "to_thread") else a + b)
asyncio.run(main())
