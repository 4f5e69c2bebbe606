"""What a simulated run can fail with, apart from the errors of the program itself."""


class SimulationError(Exception):
    """The run cannot go on, or cannot be believed. The program under test, or its use of the simulator, must change."""


class Deadlock(SimulationError):
    """Nothing is left to do and nothing will ever happen, but the run is not over. Says who waits where."""


class Livelock(SimulationError):
    """Step after step ran without virtual time going on. Says who ran."""


class TooLong(SimulationError):
    """The run went on for longer than it may, in virtual time. Says who waits where."""


class Unhandled(SimulationError):
    """A callback or a spawned task failed and was not handled. The failure is the cause of this error."""


class Unsimulated(SimulationError, NotImplementedError):
    """The program asked for something that cannot be simulated. Says what, and what to do instead.

    Also a `NotImplementedError`, which is how asyncio tells a program that a loop lacks a feature: a program that can
    do without (signal handlers, for instance) then does.
    """


class MachineDead(BaseException):
    """The machine this code ran on is no more. A `BaseException`: dead machines handle nothing and clean up nothing."""
