"""What a shim does: start one command, take down what it writes, end it when asked or when the lease does, record how.

It waits for everything in one place, has no threads, and depends on no other process: the agent may be gone for days.
Whatever it is asked comes as a line through the FIFO `control`:

    end DEADLINE_NS SIGNAL     send the signal; kill all that is left at the deadline (CLOCK_BOOTTIME)

Asked again, the earlier deadline counts. A container that must run at most once is asked to end, and killed, by the
times in the lease file, which the agent renews (`records.Lease`).

One whose directory was removed is ended, too: no agent could find it.

When the first process of a container has ended, the container has, as in Kubernetes: what it left is killed. Only when
none of it is there any more is the end recorded. The shim then ends, and lets go of its lock.
"""

from __future__ import annotations

import os
import select
import time

from mainstay.agent.runners.process import exec_setup, kernel, records, shim_log, trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_READ_BYTES = 32 * 1024
_LOOK_AT_LEASE_MS = 1000  # The timer of `poll` stands still while the machine sleeps, the lease does not.
_LOOK_AROUND_MS = 10_000
_ABANDONED_GRACE_NS = 5_000_000_000
_ROUND_MS = 20
_DRAIN_READS_MAX = 100_000  # A process outside that holds a stream must not keep us for ever.
_MESSAGE_BYTES_MAX = 4096
_LOG_MESSAGE_BYTES_MAX = 2048
_LOG_MESSAGE_LINES_MAX = 80
_CGROUPS_GONE_WITHIN_S = 2.0
_RECORD_TRIES = 120
_RECORD_AGAIN_S = 0.5
_START_ERROR = 128
_UMASK = 0o022  # The agent keeps its files to itself. What is secret here says so.


class Shim:
    """The life of one container."""

    def __init__(self, orders: int) -> None:
        self._orders = exec_setup.read_orders(orders)
        self._cgroups = [directory for directory, _ in self._orders["cgroups"]]
        self._started_ns = time.time_ns()
        self._started_ticks = 0
        self._pid = 0
        self._status: int | None = None  # Of the first process, as `wait` gives it.
        self._start_error = ""
        self._deadline_ns: int | None = None  # When it is killed. None: it was not asked to end.
        self._is_killed = False
        self._is_fenced = False
        self._lease: records.Lease | None = None
        self._heard = b""
        self._failed = -1  # Closed when the command is executed; until then, what went wrong can be read from it.
        self._asked = 0  # The signal with which it was asked to end.

    def run(self) -> None:
        os.umask(_UMASK)
        kernel.adopt_orphans()
        kernel.ignore(kernel.SIGHUP, kernel.SIGINT, kernel.SIGQUIT, kernel.SIGTERM)  # They are meant for others.
        self._children_ended = kernel.children_ended()
        for descriptor in (self._orders["lock"], self._orders["control"], self._orders["report"]):
            os.set_inheritable(descriptor, False)
        records.write_holder(self._orders["lock"], os.getpid(), _read_start(os.getpid()), self._orders["boot"])
        self._log = shim_log.LogWriter(self._orders["log"])
        self._poll = select.poll()
        self._streams: dict[int, shim_log.LogStream] = {}
        self._message = self._make_root()
        self._look_at_lease()
        if self._is_fenced:
            self._start_error = "the lease of the node is not held"
        else:
            self._start()
            self._watch()
            self._end_rest()
        self._drain()
        self._record_end()

    # Beginning.

    def _make_root(self) -> str:
        """The container's own directory. Returns where its last message is looked for."""
        exec_setup.prepare_root(self._orders)
        message = self._orders["root"] + os.path.normpath(self._orders["message_path"])
        if not os.path.exists(message):
            try:
                os.makedirs(os.path.dirname(message), exist_ok=True)
                os.close(os.open(message, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
                os.chmod(message, 0o666)
            except OSError:  # In a volume that cannot be written. Then there will be no message.
                return message
            # As a mount, it is also found at its own path, where that can be.
            self._orders["mounts"].append((message, self._orders["message_path"], False))
        return message

    def _start(self) -> None:
        self._make_cgroups()
        go_read, go_write = os.pipe()
        failed_read, failed_write = os.pipe()
        ours, theirs = self._make_streams()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(go_read, go_write, failed_write, theirs)
        for descriptor in sorted({go_read, failed_write, *theirs}):
            os.close(descriptor)
        for descriptor, name in ours.items():
            os.set_blocking(descriptor, False)
            self._streams[descriptor] = shim_log.LogStream(self._log, name)
            self._poll.register(descriptor, select.POLLIN)
        self._started_ns = time.time_ns()
        self._started_ticks = _read_start(self._pid)
        records.replace(
            f"{self._orders['attempt']}/started.json",
            records.encode_json(
                (
                    ("pid", self._pid),
                    ("ticks", self._started_ticks),
                    ("boot", self._orders["boot"]),
                    ("at_ns", self._started_ns),
                )
            ),
            is_synced=False,  # After a power cut it only matters whether it was begun, not whether it was started.
        )
        os.write(go_write, b"!")
        os.close(go_write)
        self._failed = failed_read
        for descriptor in (failed_read, self._children_ended, self._orders["control"]):
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.POLLIN)

    def _make_cgroups(self) -> None:
        for directory, settings in self._orders["cgroups"]:
            os.makedirs(directory, exist_ok=True)
            for name, value in settings:
                try:
                    with open(f"{directory}/{name}", "wb") as file:
                        file.write(value.encode())
                except OSError:
                    # Kernels differ in what they offer beyond the limits themselves, such as those of swap.
                    if name.endswith(("memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us")):
                        raise

    def _make_streams(self) -> tuple[dict[int, bytes], tuple[int, int, int]]:
        """Our ends, with the names of the streams; and the container's standard input, output and error."""
        if self._orders["has_terminal"]:
            ours, theirs = os.openpty()
            return {ours: b"stdout"}, (theirs, theirs, theirs)
        if self._orders["has_stdin"]:
            # There is no writer, but one might come: it must wait, not find the end.
            stdin, self._stdin = os.pipe()
        else:
            stdin = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        out, theirs_out = os.pipe()
        err, theirs_err = os.pipe()
        return {out: b"stdout", err: b"stderr"}, (stdin, theirs_out, theirs_err)

    def _become(self, go: int, go_write: int, failed: int, streams: tuple[int, int, int]) -> NoReturn:
        """In the copy: the container's first process."""
        try:
            shim = os.getppid()
            os.close(go_write)
            os.setsid()
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            if self._orders["has_terminal"]:
                os.close(os.open(os.ttyname(0), os.O_RDWR))  # The first that a session opens is its own.
            exec_setup.enter(self._orders)
            kernel.die_with_parent()
            # Not before the shim has recorded it, and not without it: it may be gone already.
            if os.read(go, 1) and os.getppid() == shim:
                exec_setup.execute(self._orders)
        except OSError as error:
            os.write(failed, exec_setup.explain(error).encode("utf-8", "replace"))
        except BaseException as error:  # noqa: BLE001 - there is no caller to raise to
            os.write(failed, repr(error).encode("utf-8", "replace"))
        exec_setup.fail(_START_ERROR)

    # While it runs.

    def _watch(self) -> None:
        """Until the first process has ended."""
        while self._status is None:
            for descriptor, _ in self._poll.poll(self._patience_ms()):
                if descriptor in self._streams:
                    self._take(descriptor)
                elif descriptor == self._children_ended:
                    self._reap()
                elif descriptor == self._orders["control"]:
                    self._hear()
                elif descriptor == self._failed:
                    self._executed()
            self._look_at_lease()
            if self._is_abandoned():
                self._end_by(records.boot_ns() + _ABANDONED_GRACE_NS, kernel.SIGTERM)
            self._look_at_deadline()

    def _is_abandoned(self) -> bool:
        """Whether our directory was removed. Then no agent will ever find the container, or ask it to end."""
        return os.fstat(self._orders["lock"]).st_nlink == 0

    def _patience_ms(self) -> int:
        times = [_LOOK_AT_LEASE_MS if self._orders["lease"] else _LOOK_AROUND_MS]
        if self._deadline_ns is not None and not self._is_killed:
            times.append(max(0, self._deadline_ns - records.boot_ns()) // 1_000_000 + 1)
        if self._lease is not None and not self._is_fenced:
            times.append(max(0, self._lease.begin_stopping_ns - records.boot_ns()) // 1_000_000 + 1)
        return min(times)

    def _executed(self) -> None:
        """The copy has become the command, which closes its end; or has said why it could not."""
        self._start_error = os.read(self._failed, _MESSAGE_BYTES_MAX).decode("utf-8", "replace")
        self._poll.unregister(self._failed)
        os.close(self._failed)
        self._failed = -1
        if not self._start_error:
            _try_write(self._orders["report"], b"started\n")
            if self._asked:
                _signal(self._pid, self._asked)  # Until now, it was still a copy of us, and did not listen.
        os.close(self._orders["report"])

    def _take(self, descriptor: int) -> bool:
        """Read from a stream. False if there is nothing now, or nothing more."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # How a terminal says that it is over.
            data = b""
        if data:
            self._streams[descriptor].take(data)
            return True
        self._poll.unregister(descriptor)
        self._streams.pop(descriptor).finish()
        os.close(descriptor)
        return False

    def _reap(self) -> None:
        try:
            while os.read(self._children_ended, 1024):
                pass
        except BlockingIOError:
            pass
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self._status = status
        except ChildProcessError:
            return

    def _hear(self) -> None:
        self._heard += os.read(self._orders["control"], 4096)
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            words = line.decode("utf-8", "replace").split()
            if len(words) == 3 and words[0] == "end":
                self._end_by(int(words[1]), int(words[2]))

    def _end_by(self, deadline_ns: int, signal: int) -> None:
        if self._deadline_ns is None:
            self._deadline_ns = deadline_ns
            self._asked = signal if deadline_ns > records.boot_ns() else 0
            if self._asked and self._failed < 0:
                _signal(self._pid, signal)
        self._deadline_ns = min(self._deadline_ns, deadline_ns)

    def _look_at_lease(self) -> None:
        if not self._orders["lease"] or self._is_fenced:
            return
        self._lease = records.read_lease(self._orders["lease"], self._orders["boot"])
        if records.boot_ns() >= self._lease.begin_stopping_ns:
            self._is_fenced = True
            if self._pid:
                self._end_by(self._lease.kill_ns, kernel.SIGTERM)

    def _look_at_deadline(self) -> None:
        if self._deadline_ns is not None and not self._is_killed and records.boot_ns() >= self._deadline_ns:
            self._is_killed = True
            if self._status is None:
                trees.kill(self._pid)
            trees.kill_cgroups(self._cgroups)

    # The end.

    def _end_rest(self) -> None:
        """Kill what the first process has left, until nothing is there. Killing one may bring us its children."""
        self._poll.unregister(self._orders["control"])  # No more can be asked for than this.
        if self._failed >= 0:
            self._executed()  # It has ended so soon that we did not come to look.
        trees.kill_cgroups(self._cgroups)
        while left := trees.children():
            for pid in left:
                trees.kill(pid)
            for descriptor, _ in self._poll.poll(_ROUND_MS):
                if descriptor in self._streams:
                    self._take(descriptor)
            self._reap()

    def _drain(self) -> None:
        for descriptor in list(self._streams):
            for _ in range(_DRAIN_READS_MAX):
                if not self._take(descriptor):
                    break
            if descriptor in self._streams:
                self._streams[descriptor].finish()

    def _record_end(self) -> None:
        code, signal = _find_code(self._status)
        # A shell whose command was killed ends with that code, and by itself.
        is_out_of_memory = code == 128 + kernel.SIGKILL and _was_out_of_memory(self._cgroups)
        trees.remove_cgroups(self._cgroups, _CGROUPS_GONE_WITHIN_S)
        message = self._start_error or _read_end(self._message, _MESSAGE_BYTES_MAX)
        if not message and code and self._orders["is_message_from_log"]:
            message = shim_log.last_lines(self._log.path, _LOG_MESSAGE_LINES_MAX, _LOG_MESSAGE_BYTES_MAX)
        if self._is_fenced:
            reason = "Fenced"
        elif self._start_error:
            reason = "StartError"
        elif is_out_of_memory:
            reason = "OOMKilled"
        else:
            reason = "Error" if code else "Completed"
        record = records.encode_json(
            (
                ("code", code),
                ("signal", signal),
                ("reason", reason),
                ("message", message),
                ("started_ns", self._started_ns),
                ("finished_ns", time.time_ns()),
            )
        )
        for _ in range(_RECORD_TRIES):  # If there is no room on the disk, perhaps there soon is.
            if self._is_abandoned():
                trees.remove_empty_parents(self._cgroups)  # As the agent would.
                return
            try:
                records.replace(f"{self._orders['attempt']}/exit.json", record)
                return
            except OSError:
                time.sleep(_RECORD_AGAIN_S)


def _read_start(pid: int) -> int:
    stat = records.process_stat(pid)
    assert stat is not None  # Ours, and not reaped.
    return stat[5]


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:  # It has ended, or there is no such signal.
        return False
    return True


def _try_write(descriptor: int, data: bytes) -> bool:
    try:
        os.write(descriptor, data)
    except OSError:  # The agent is gone. The next one reads the files.
        return False
    return True


def _find_code(status: int | None) -> tuple[int, int]:
    """The exit code, as shells count, and the signal."""
    if status is None:
        return 128 + kernel.SIGKILL, 0
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status), os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def _was_out_of_memory(cgroups: list[str]) -> bool:
    for directory in cgroups:
        for name in ("memory.events", "memory.oom_control"):
            try:
                with open(f"{directory}/{name}", "rb") as file:
                    words = file.read().split()
            except OSError:
                continue
            if b"oom_kill" in words and int(words[words.index(b"oom_kill") + 1]):
                return True
    return False


def _read_end(path: str, bytes_max: int) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(bytes_max).decode("utf-8", "replace")
    except OSError:
        return ""
