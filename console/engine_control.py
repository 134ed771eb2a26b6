"""Start, stop and restart from the keyboard: what each means now, and the doing."""

from __future__ import annotations

from textual.app import App

from console.dialogs.confirm import ConfirmDialog
from console.dialogs.stopping import StoppingScreen
from console.session import Session
from engine.errors import EngineError


def stop_consequence(session: Session, stress_runs: bool) -> list[str]:
    """What stopping the engine would end, read from the live state."""
    gauges = session.state.gauges
    lines = []
    if gauges is not None and session.live:
        busy = gauges.running + gauges.waiting
        lines.append(f"{busy} {'request ends' if busy == 1 else 'requests end'} unfinished." if busy else "It is idle.")
    else:
        lines.append("It does not answer at the moment.")
    if stress_runs:
        lines.append("The stress run ends as interrupted, with what it measured.")
    return lines


async def start_engine(app: App[None], session: Session) -> None:
    if session.supervisor is None:
        return
    try:
        await session.supervisor.start()
    except EngineError as error:
        app.notify(str(error), title="start", severity="error")


async def stop_engine(app: App[None], session: Session, stress_runs: bool) -> bool:
    """Asks, then stops. True when the engine is down."""
    sure = await app.push_screen_wait(
        ConfirmDialog("Stop the engine?", lambda: stop_consequence(session, stress_runs), "Stop")
    )
    if not sure:
        return False
    await stop_now(app, session)
    return True


async def stop_now(app: App[None], session: Session) -> None:
    """Stops with the ladder in sight."""
    if session.supervisor is None:
        return
    screen = StoppingScreen(session)
    await app.push_screen(screen)
    try:
        await session.supervisor.stop()
    finally:
        if screen.is_current:
            screen.dismiss(None)


async def restart_engine(app: App[None], session: Session, stress_runs: bool, ask: bool = True) -> None:
    if session.supervisor is None:
        return
    if ask and not await app.push_screen_wait(
        ConfirmDialog("Restart the engine?", lambda: stop_consequence(session, stress_runs), "Restart")
    ):
        return
    try:
        await session.supervisor.restart()
    except EngineError as error:
        app.notify(str(error), title="restart", severity="error")
