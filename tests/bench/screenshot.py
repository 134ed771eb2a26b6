"""``python -m tests.bench.screenshot OUT.svg``: the overview over a real engine under a stress test, for README.

The default model, the demo adapters and 60 random ones of rank 64, in a pool that holds a third of them.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from console.app import LoraConsole
from console.engine_start import default_model
from console.options import ConsoleOptions
from console.session import Session
from console.stress_plan import plan
from engine.demo_adapters import demo_adapter_dir
from engine.model_folder import read_shape
from engine.random_adapters import make_adapters
from tests.running_engine import running_engine


async def shoot(out: Path, size: tuple[int, int], seconds: float, keys: list[str]) -> None:
    model = default_model()
    with tempfile.TemporaryDirectory() as temp:
        folder = Path(temp)
        make_adapters(folder / "adapters", read_shape(model, 2), 60, 64)
        async with running_engine(
            folder / "state", engine="unified", model=str(model), pool_mib=768, max_model_len=2048,
            adapter_dirs=(str(demo_adapter_dir()), str(folder / "adapters")),
        ) as engine:  # fmt: skip
            options = ConsoleOptions(frame_rate=10)
            session = Session(engine.client, engine.supervisor, folder / "history.db", folder / "state", options)
            app = LoraConsole(session)
            async with app.run_test(size=size) as pilot:
                await pilot.pause(2)
                for name in ("acme-support", "pirate"):
                    await engine.client.adapter("pin", name)
                changes = {"requests": 2000, "workers": 24, "adapter_count": 64, "max_tokens": 24}
                run = asyncio.create_task(
                    session.stress.run(await plan(engine.client, "article-cpu", "", changes), session.state.gauges)
                )
                await pilot.pause(seconds)
                await pilot.press(*keys)
                await pilot.pause(1)
                svg = app.export_screenshot(title="loraconsole")
                # Not every renderer keeps blanks at the start of a text.
                out.write_text(svg.replace("<text ", '<text xml:space="preserve" '))
                session.stress.stop()
                await run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.screenshot", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--keys", default="", help="pressed before the picture, separated by commas")
    arguments = parser.parse_args()
    columns, rows = map(int, arguments.size.split("x"))
    keys = [key for key in arguments.keys.split(",") if key]
    asyncio.run(shoot(arguments.out, (columns, rows), arguments.seconds, keys))


if __name__ == "__main__":
    main()
