"""Scopes that end in any sequence, scopes of suspended bodies, and a scope that is used again."""

import asyncio
import contextlib
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


@pytest.mark.parametrize("pauses", [(1, 3), (3, 1), (2, 2)])
def test_interleaved_tasks_leave_the_thread_as_it_was(pauses):
    run(*(awaits_inside(impl.deterministic(), count) for count in pauses))
    assert not enabled()
    assert_the_setter_holds()


def test_the_last_of_the_open_scopes_holds():
    first, second = impl.deterministic(profile="complete"), impl.deterministic(False)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (enabled(), impl.get_deterministic_profile()) == (False, "complete")
    first.__enter__()
    second.__exit__(None, None, None)
    assert enabled()
    first.__exit__(None, None, None)
    assert_the_setter_holds()


def test_a_cancelled_task_ends_its_scope():
    async def cancels():
        task = asyncio.create_task(awaits_inside(impl.deterministic(), 1000))
        other = asyncio.create_task(awaits_inside(impl.deterministic(), 2))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert enabled()
        await other

    asyncio.run(cancels())
    assert_the_setter_holds()


def test_a_program_is_traced_again_after_interleaved_scopes():
    traced = []
    program = jax.jit(lambda x: traced.append(enabled()) or x)
    run(*(awaits_inside(impl.deterministic(), count) for count in (1, 3)))
    program(jnp.ones(2))
    with impl.deterministic():
        program(jnp.ones(2))
    assert traced == [False, True]


def test_one_object_nests_in_itself_and_is_used_again():
    scope = impl.deterministic(profile="complete")
    for _ in range(2):
        with scope:
            with scope:
                assert enabled()
            assert enabled()
        assert not enabled()
    assert_the_setter_holds()


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


def test_the_end_of_a_scope_that_is_not_open_is_refused():
    scope = impl.deterministic()
    with pytest.raises(RuntimeError, match="has to end in the thread in which it began"):
        scope.__exit__(None, None, None)


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


def test_a_scope_decorates_what_can_be_called():
    with pytest.raises(TypeError, match="a scope decorates a function, not int; write 'with'"):
        impl.deterministic()(3)
