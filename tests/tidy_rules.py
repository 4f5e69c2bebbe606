"""What tests/tidy.py looks for, as tables: who may import whom, what asks the outside, which exceptions there are.

To allow an import between two parts, change `ALLOWED_IMPORTS`, and docs/ARCHITECTURE.md with it. To let one module ask
the outside past `mainstay.env`, name it in `EXCEPTIONS` with the reason; better is to widen the seam.
"""

from enum import StrEnum
from typing import Final

LINES_MAX: Final = 600  # Of a module. Long before that, look for the second idea in it.
PARAMETERS_MAX: Final = 8  # Of a function. Long before that, look for the value that several of them are.
FAN_OUT_MAX: Final = 30  # Own modules that a module imports.
ING_MAX: Final = 15  # Modules whose name ends in -ing.


class Rule(StrEnum):
    """What is wrong, and what to do instead."""

    CLOCK = "reads a clock; use env.clock"
    CHANCE = "draws a random number or makes an id; use env.chance"
    FILE = "touches the file system; use env.disk"
    NETWORK = "opens a socket; use mainstay.env.network"
    PROCESS = "starts a thread or a process, or guards against one; use mainstay.env.tasks.Worker"
    TASK = "starts a task, a loop or a wait of its own; use mainstay.env.tasks"
    SYSTEM = "asks the operating system; only mainstay.env may"
    HIDDEN_IMPORT = "imports by a computed name, which nothing can check; write an import statement"
    DIRECTION = "imports go one way; see ALLOWED_IMPORTS in tests/tidy_rules.py"
    UNKNOWN_PACKAGE = "is no part of the design; give it a line in ALLOWED_IMPORTS in tests/tidy_rules.py"
    SET_ORDER = "the order of a set differs from run to run; use sorted(), or a dict"
    PRINT = "only the command line prints"
    DOCSTRING = "a module says in its first lines what it is for"
    LENGTH = f"a module has at most {LINES_MAX} lines; look for the second idea in it"
    INTERNAL = "is internal to its room; import a door of the room (tests/tidy_doors.py, python -m tests.tidy_map)"
    STALE_DOOR = "is a door that no import uses; remove it (`python -m tests.tidy_map`)"
    STALE_DIRECTION = "is allowed in ALLOWED_IMPORTS and no module does it; remove it"
    FAN_OUT = f"a module imports at most {FAN_OUT_MAX} of ours; split it, or let a table bring them together"
    PARAMETERS = f"a function has at most {PARAMETERS_MAX} parameters; look for the value that several of them are"
    CLASS_NAME = "one class name, one class; qualify it"
    FUNCTION_NAME = "a function is a verb: parse_x, find_x, build_x, render_x instead of x_of"
    MODULE_NAME = f"modules are nouns; at most {ING_MAX} end in -ing, listed in tests/tidy_debts.py"
    WORD = "is a retired word; write plain English (tests/tidy_words.py)"
    UNSUPERVISED = "is a loop that nothing supervises; use mainstay.env.vital, or name it in LOOPS_THAT_MAY_END"
    STALE_EXCEPTION = "is excused in tests/tidy_rules.py but not used any more; remove the exception"

    @classmethod
    def outside(cls) -> "frozenset[Rule]":
        """The rules that mean asking the outside. They do not bind those who are the seam, or who replace it."""
        return frozenset({cls.CLOCK, cls.CHANCE, cls.FILE, cls.NETWORK, cls.PROCESS, cls.TASK, cls.SYSTEM})


# Who may import whom, besides itself. Lower parts come first; a part that is not here does not exist. The store knows
# nothing of pods; client and server meet at the wire; scheduler, controllers and agent meet in the store.
_CONTROL = ("env", "api", "journal", "client", "loop")
_COMPONENTS = ("server", "scheduler", "controllers", "agent")
ALLOWED_IMPORTS: Final = {
    "__init__": (),
    "env": (),
    "supervisor": ("env",),
    "api": (),
    "journal": ("env", "api"),
    "store": ("env",),
    "http": ("env", "api"),
    "cel": (),
    "server": ("env", "api", "journal", "store", "http", "cel"),
    "client": ("env", "api", "journal"),
    "loop": ("env", "api", "journal", "client"),
    # explain has the frame. What is known about a kind is beside who acts on it, and registry.py lists these rooms.
    "explain": ("api", "journal", "client", "loop"),
    "scheduler": (*_CONTROL, "explain"),
    "controllers": (*_CONTROL, "explain"),
    "agent": (*_CONTROL, "http", "explain"),
    "registry": ("api", "explain", "scheduler", "controllers", "agent"),
    "sim": (*_CONTROL, "store", "http", *_COMPONENTS, "explain", "registry"),
    "scenarios": (*_CONTROL, "store", *_COMPONENTS, "explain", "registry", "sim"),
    "cli": (*_CONTROL, "http", *_COMPONENTS, "explain", "registry", "sim", "scenarios", "supervisor"),
}

# Packages that others build on: what lies directly in them, outside their rooms, is open to all who may import them.
LIBRARIES: Final = ("env", "api", "cel", "journal", "client", "loop")

# What is itself between Mainstay and the machine: under simulation something else takes the place of all of it.
SEAMS_BESIDE_ENV: Final = ("mainstay/agent/runners/process/",)

# Modules, and what they may use all the same.
EXCEPTIONS: Final = (
    # SQLite does its own file access. Under simulation another log takes the place of this module.
    ("mainstay/store/sqlite_image.py", "sqlite3"),
    ("mainstay/store/sqlite_log.py", "sqlite3"),
    # gRPC brings its own sockets and threads. Under simulation a fake etcd takes the place of this module.
    ("mainstay/store/etcd/grpc_kv.py", "grpc"),
    # Commands are imported when they are called, from a table of names; tests/cli/test_help.py loads every entry.
    ("mainstay/cli/lazy_group.py", "importlib.import_module"),
    # Rooms are imported when a question needs them; tests/explain/test_registry.py loads every one.
    ("mainstay/registry.py", "importlib.import_module"),
)

# Loops that `tasks.spawn` may start, because another task waits for them, or because they are not vital.
LOOPS_THAT_MAY_END: Final = (
    # The reader of the watch gets what ended it.
    ("mainstay/store/etcd/watch.py", "_follow"),
    # The connection ends with it.
    ("mainstay/server/watch/websocket.py", "send_to"),
    # `mainstay up` prints what fails, and goes on supervising.
    ("mainstay/cli/up_foreground.py", "_renew_regularly"),
    # The scenario judges it.
    ("mainstay/scenarios/leaders_and_clocks.py", "_look"),
    # A log file that is not trimmed is no reason to end a supervisor.
    ("mainstay/supervisor/supervisor.py", "_trim"),
)

INNOCENT: Final = None
# The rule that a use breaks, the module or class, the names in it. The longest entry that matches a name decides. Names
# are reported where they are used; a module of which no part is innocent, also where it is imported.
_OUTSIDE: Final = (
    (Rule.CLOCK, "", "time timeit sched"),
    (Rule.CLOCK, "datetime.datetime", "now utcnow today"),
    (Rule.CLOCK, "datetime.date", "today"),
    (Rule.CLOCK, "email.utils", "formatdate localtime"),
    (Rule.CLOCK, "<loop>", "time"),
    (Rule.CHANCE, "", "random secrets uuid numpy.random email.utils.make_msgid"),
    (INNOCENT, "", "random.Random uuid.UUID"),  # As types, and to take a UUID's text apart. See also OUTSIDE_CALLS.
    (Rule.FILE, "", "shutil tempfile glob fileinput linecache mmap fcntl sqlite3 dbm shelve importlib.resources"),
    (Rule.FILE, "", "builtins.open codecs.open gzip.open bz2.open lzma.open tarfile.open click.File click.open_file"),
    (Rule.FILE, "io", "open open_code FileIO"),
    (Rule.FILE, "logging", "FileHandler handlers"),
    (Rule.FILE, "pathlib.Path", "home cwd"),
    (Rule.FILE, "os.path", "exists lexists isfile isdir islink ismount getsize getmtime getatime getctime"),
    (Rule.FILE, "os.path", "samefile realpath abspath expanduser"),
    (
        Rule.NETWORK,
        "",
        "socket socketserver selectors select http.client http.server urllib.request grpc aiohttp httpx",
    ),
    (Rule.NETWORK, "ssl", "SSLSocket wrap_socket get_server_certificate"),
    (Rule.NETWORK, "asyncio", "open_connection start_server open_unix_connection start_unix_server"),
    (Rule.NETWORK, "<loop>", "create_connection create_server create_unix_connection create_unix_server"),
    (Rule.NETWORK, "<loop>", "create_datagram_endpoint sock_connect sock_accept connect_accepted_socket"),
    (Rule.NETWORK, "<loop>", "getaddrinfo getnameinfo add_reader add_writer connect_read_pipe connect_write_pipe"),
    (Rule.PROCESS, "", "threading _thread multiprocessing concurrent.futures subprocess pty queue"),
    (Rule.PROCESS, "asyncio", "to_thread create_subprocess_exec create_subprocess_shell run_coroutine_threadsafe"),
    (Rule.PROCESS, "<loop>", "run_in_executor subprocess_exec subprocess_shell call_soon_threadsafe"),
    (Rule.TASK, "", "uvloop"),
    (Rule.TASK, "asyncio", "create_task ensure_future TaskGroup sleep timeout timeout_at wait_for"),
    (Rule.TASK, "asyncio", "run Runner new_event_loop set_event_loop set_event_loop_policy"),
    (Rule.TASK, "<loop>", "create_task"),
    # Of the operating system, only what is a value, or stays the same for as long as a process lives.
    (Rule.SYSTEM, "", "os"),
    (INNOCENT, "os", "path PathLike environ getenv fspath fsencode fsdecode sep linesep strerror getpid"),
    (Rule.HIDDEN_IMPORT, "", "builtins.__import__ importlib.import_module"),
)


def _dotted(module: str, names: str) -> list[str]:
    return [f"{module}.{name}" if module else name for name in names.split()]


OUTSIDE: Final = {name: rule for rule, module, names in _OUTSIDE for name in _dotted(module, names)}

# Names that are innocent as types but not when they are called.
OUTSIDE_CALLS: Final = {"random.Random": Rule.CHANCE}

# Methods of objects whose type is not known, judged by their name in modules that import the type.
_PATH_METHODS = (
    "open read_text read_bytes write_text write_bytes touch mkdir unlink rmdir iterdir glob rglob walk exists is_file "
    "is_dir is_symlink is_mount stat lstat chmod samefile readlink symlink_to hardlink_to resolve expanduser"
)
METHODS: Final = {
    "pathlib": dict.fromkeys(_PATH_METHODS.split(), Rule.FILE),
    "asyncio": {"create_task": Rule.TASK, "run_in_executor": Rule.PROCESS},
    "ssl": {"wrap_socket": Rule.NETWORK},
}
# The same, for methods of a path that only their one argument tells from those of a text or of a disk.
METHODS_OF_ONE_ARGUMENT: Final = {"rename": Rule.FILE, "replace": Rule.FILE}

# Calls that give the same answer in whatever order their argument comes, and calls that pass that order on.
ORDER_FREE: Final = frozenset(_dotted("builtins", "sorted set frozenset len any all min max"))
ORDER_KEEPING: Final = frozenset(_dotted("builtins", "list tuple iter enumerate zip map filter dict.fromkeys"))
