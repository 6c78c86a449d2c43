"""Scopes that end in any sequence, scopes of suspended bodies, and a scope that is used again."""

import asyncio
import inspect
import threading
import types

import jax
import jax.numpy as jnp
import pytest

import impl

enabled = impl.are_deterministic_algorithms_enabled


def run(*coroutines):
    """Runs coroutines as tasks of one thread and returns their results."""

    async def together():
        return await asyncio.gather(*coroutines)

    return asyncio.run(together())


async def awaits_inside(scope, pauses):
    with scope:
        for _ in range(pauses):
            await asyncio.sleep(0)


def assert_the_setter_holds():
    for mode in (True, False):
        impl.use_deterministic_algorithms(mode)
        assert enabled() is mode


LEAKS = "scope of impl.deterministic that began at .*test_scopes.py:.* task 'first' awaits"


async def reads():
    enabled()


async def begins_a_scope():
    with impl.deterministic(False):
        pass


@pytest.mark.parametrize("other", [reads, begins_a_scope])
def test_other_tasks_do_not_get_the_scope_of_a_task_that_awaits(other):
    async def together():
        first = asyncio.create_task(awaits_inside(impl.deterministic(), 3), name="first")
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match=LEAKS):
            await other()
        with pytest.raises(RuntimeError, match=LEAKS):
            await first
        await other()

    asyncio.run(together())
    assert not enabled()
    assert_the_setter_holds()


def test_a_scope_whose_task_awaits_raises_although_no_other_task_reads_the_mode():
    with pytest.raises(RuntimeError, match=r"decorate the function: @impl.deterministic"):
        run(awaits_inside(impl.deterministic(), 1))
    assert_the_setter_holds()


def test_a_task_has_scopes_that_end_before_it_awaits():
    async def in_turn(mode, pauses):
        seen = []
        for _ in range(pauses):
            with impl.deterministic(mode), impl.deterministic(profile="complete", mode=mode):
                await awaits_inside(impl.deterministic(mode), 0)
                seen.append(enabled())
            await asyncio.sleep(0)
            seen.append(enabled())
        return seen

    with impl.deterministic(profile="complete"):
        # Tasks have the mode of the thread between their scopes.
        assert run(in_turn(True, 2), in_turn(False, 2)) == [[True] * 4, [False, True] * 2]
        assert enabled()
    assert_the_setter_holds()


def test_the_last_of_the_open_scopes_holds_and_one_object_nests_in_itself():
    first, second = impl.deterministic(profile="complete"), impl.deterministic(False)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (enabled(), impl.get_deterministic_profile()) == (False, "complete")
    first.__enter__()
    second.__exit__(None, None, None)
    assert enabled()
    first.__exit__(None, None, None)
    with first, first:
        assert enabled()
    assert_the_setter_holds()


def test_a_cancelled_task_ends_its_scope_and_its_error_has_a_note():
    async def cancels():
        task = asyncio.create_task(awaits_inside(impl.deterministic(), 1000), name="first")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        assert "task 'first' awaits" in cancelled.value.__notes__[0]
        assert not enabled()

    asyncio.run(cancels())
    assert_the_setter_holds()


def test_a_program_is_traced_again_after_interleaved_scopes():
    traced = []
    program = jax.jit(lambda x: traced.append(enabled()) or x)
    scopes = impl.deterministic(), impl.deterministic()
    for action in ("__enter__", "__exit__"):
        for scope in scopes:
            getattr(scope, action)(*[None] * 3 * (action == "__exit__"))
    program(jnp.ones(2))
    with impl.deterministic():
        program(jnp.ones(2))
    assert traced == [False, True]


def test_one_object_in_two_threads():
    scope, entered, ended = impl.deterministic(), threading.Event(), threading.Event()
    seen = []

    def other():
        with scope:
            entered.set()
            assert ended.wait(60)
            seen.append(enabled())
        seen.append(enabled())

    thread = threading.Thread(target=other)
    with scope:
        thread.start()
        assert entered.wait(60)
    assert not enabled()
    ended.set()
    thread.join()
    assert seen == [True, False]


@impl.deterministic()
def numbers(count):
    """The docstring of the generator."""
    received = [enabled()]
    try:
        for number in range(count):
            try:
                received.append(((yield number), enabled()))
            except KeyError as error:
                received.append((str(error), enabled()))
    finally:
        LAST[:] = received
    return received


LAST: list[object] = []


@impl.deterministic()
async def awaits(pauses):
    seen = []
    for _ in range(pauses):
        seen.append(enabled())
        await asyncio.sleep(0)
    return [*seen, enabled()]


@impl.deterministic()
async def items(count):
    for _ in range(count):
        await asyncio.sleep(0)
        try:
            yield enabled()
        except KeyError:
            yield "handled", enabled()


def test_a_decorated_generator_has_the_mode_while_it_runs():
    generator = numbers(3)
    assert inspect.isgeneratorfunction(numbers)
    assert isinstance(generator, types.GeneratorType)
    assert numbers.__doc__ == "The docstring of the generator."
    assert [next(generator), enabled(), generator.send("a"), enabled()] == [0, False, 1, False]
    assert (generator.throw(KeyError("b")), enabled()) == (2, False)
    with pytest.raises(StopIteration) as stop:
        generator.send("c")
    assert stop.value.value == [True, ("a", True), ("'b'", True), ("c", True)]


def test_a_decorated_generator_that_is_closed_or_raises():
    generator = numbers(3)
    next(generator)
    generator.close()
    assert not enabled()
    assert LAST == [True]
    generator = numbers(3)
    next(generator)
    with pytest.raises(ValueError, match="unhandled"):
        generator.throw(ValueError("unhandled"))
    assert not enabled()


def test_a_decorated_coroutine_has_the_mode_while_it_runs():
    async def plain():
        seen = []
        for _ in range(4):
            await asyncio.sleep(0)
            seen.append(enabled())
        return seen

    assert inspect.iscoroutinefunction(awaits)
    assert run(awaits(2), plain(), awaits(1)) == [[True] * 3, [False] * 4, [True] * 2]
    assert not enabled()


def test_a_decorated_asynchronous_generator():
    async def collected():
        seen = [(item, enabled()) async for item in items(2)]
        generator = items(1)
        seen.append(await anext(generator))
        seen.append(await generator.athrow(KeyError()))
        await generator.aclose()
        return seen

    assert inspect.isasyncgenfunction(items)
    assert asyncio.run(collected()) == [(True, False), (True, False), True, ("handled", True)]
    assert not enabled()


def test_a_scope_decorates_what_can_be_called_and_ends_where_it_is_open():
    scope = impl.deterministic()
    with pytest.raises(TypeError, match="a scope decorates a function, not int; write 'with'"):
        scope(3)
    with pytest.raises(RuntimeError, match="has to end in the thread in which it began"):
        scope.__exit__(None, None, None)
