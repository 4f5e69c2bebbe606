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

from mainstay.agent.runners.process import beneath, exec_setup, kernel, records, rootfs, shim_log, trees

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
_REST_GONE_WITHIN_NS = 10_000_000_000
_DESCRIPTORS_MAX = 65536
_BUILT = "built"
_UMASK = 0o022  # The agent keeps its files to itself. What is secret here says so.


class Shim:
    """The life of one container."""

    def __init__(self, orders: int) -> None:
        self._orders = exec_setup.read_orders(orders)
        self._cgroups = [directory for directory, _ in self._orders["cgroups"]]
        self._started_ns = time.time_ns()
        self._started_ticks = 0
        self._pid = 0
        self._init = 0  # The first process of the container's namespaces, if it has such.
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
            if self._pid:
                self._watch()
                self._end_rest()
        self._drain()
        self._record_end()

    # Beginning.

    def _make_root(self) -> int:
        """The container's own directory, and the file for its last message: outside of that directory, and held open.
        The container finds it by a mount, or a link, with which it may do what it likes."""
        message = beneath.open_regular(self._orders["message"], os.O_RDWR | os.O_CREAT)
        os.fchmod(message, 0o666)
        path = os.path.normpath("/" + self._orders["message_path"].lstrip("/"))
        self._orders["mounts"].append((self._orders["message"], "", path, False))
        exec_setup.prepare_root(self._orders)
        return message

    def _start(self) -> None:
        self._make_cgroups()
        if not self._join_network():
            return
        if self._orders["is_isolated"]:
            self._start_init()
            if self._start_error:
                return
        go_read, go_write = os.pipe()
        failed_read, failed_write = os.pipe()
        left_read, left_write = os.pipe()
        ours, theirs = self._make_streams()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(go_write)
            os.close(left_read)
            self._become(go_read, failed_write, left_write, theirs)
        for descriptor in sorted({go_read, failed_write, left_write, *theirs}):
            os.close(descriptor)
        # It has left our user namespace, or has failed.
        if os.read(left_read, 1) and self._has_users:
            _map_users(self._pid, self._orders["user_map"], self._orders["group_map"])
        os.close(left_read)
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

    def _join_network(self) -> bool:
        """Be in the network of the pod, with all that is started from here on."""
        if self._orders["network"]:
            try:
                kernel.join(os.open(self._orders["network"], os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                self._start_error = f"network of the pod: {exec_setup.explain(error)}"
                self._status = _START_ERROR << 8  # As if it had been the command.
        return not self._start_error

    @property
    def _has_users(self) -> bool:
        """Whether the container has a user namespace that is not ours as well."""
        return bool(self._orders["user_map"]) and not self._orders["is_own_user"]

    def _start_init(self) -> None:
        """Start the first process of the container's namespaces: it makes the file system (rootfs.py), and then does
        nothing. When it ends, the kernel kills all that is in there; so it does when we end, since it dies with us.

        The container's command is not the first one itself, since that is deaf to all signals for which it has no
        handler, and has to remove what its descendants leave. It is our child all the same, so we hear how it ends.
        """
        if self._orders["is_own_user"]:
            own = os.geteuid(), os.getegid()
            kernel.unshare(kernel.NEW_USERS)
            _deny_groups()
            _map_users(
                "self",
                [(inside, own[0], 1) for inside, _, _ in self._orders["user_map"]],
                [(inside, own[1], 1) for inside, _, _ in self._orders["group_map"]],
            )
        if self._orders["has_own_pids"]:
            kernel.unshare(kernel.NEW_PIDS)
        built, built_write = os.pipe()
        self._init = os.fork()
        if self._init == 0:
            self._be_init(built, built_write)
        os.close(built_write)
        said = os.read(built, _MESSAGE_BYTES_MAX).decode("utf-8", "replace")
        os.close(built)
        if said != _BUILT:
            self._start_error = said or "the first process of the container's namespaces was killed"
            self._status = _START_ERROR << 8  # As if it had been the command.

    def _be_init(self, built: int, built_write: int) -> NoReturn:
        try:
            os.close(built)
            kernel.die_with_parent()
            os.setsid()
            kernel.unshare(kernel.NEW_MOUNTS | (kernel.NEW_IPC if self._orders["has_own_ipc"] else 0))
            rootfs.build(self._orders)
            os.write(built_write, _BUILT.encode())
            os.closerange(3, _DESCRIPTORS_MAX)  # Above all the lock.
            kernel.reap_for_ever()
        except OSError as error:
            os.write(built_write, exec_setup.explain(error).encode("utf-8", "replace"))
        except BaseException as error:  # noqa: BLE001 - there is no caller to raise to
            os.write(built_write, repr(error).encode("utf-8", "replace"))
        exec_setup.fail(_START_ERROR)

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
            self._give(theirs)
            return {ours: b"stdout"}, (theirs, theirs, theirs)
        if self._orders["has_stdin"]:
            # There is no writer, but one might come: it must wait, not find the end.
            stdin, self._stdin = os.pipe()
        else:
            stdin = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        out, theirs_out = os.pipe()
        err, theirs_err = os.pipe()
        for descriptor in (theirs_out, theirs_err, *((stdin,) if self._orders["has_stdin"] else ())):
            self._give(descriptor)
        return {out: b"stdout", err: b"stderr"}, (stdin, theirs_out, theirs_err)

    def _give(self, stream: int) -> None:
        """Let the container's user open it again by name, such as /dev/stdout."""
        if self._orders["owner"][0] >= 0:
            os.fchown(stream, *self._orders["owner"])

    def _become(self, go: int, failed: int, left: int, streams: tuple[int, int, int]) -> NoReturn:
        """In the copy: the container's command."""
        try:
            shim = os.getppid()
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            exec_setup.begin_session(has_terminal=self._orders["has_terminal"])
            trees.join_cgroups(trees.open_cgroups(self._cgroups))
            exec_setup.enter(self._orders, self._init)
            if self._has_users:
                kernel.unshare(kernel.NEW_USERS)
            os.write(left, b"!")
            os.close(left)
            # Not before the shim has recorded it.
            if os.read(go, 1):
                exec_setup.become_user(self._orders)
                kernel.die_with_parent()
                if os.getppid() == shim:  # Not without it: it may be gone already.
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
        until_ns = records.boot_ns() + _REST_GONE_WITHIN_NS
        while left := trees.children():
            if left == [self._init] and records.boot_ns() > until_ns:
                break  # All in there were killed, but a process outside does not reap its child.
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
        said = beneath.read_tail(self._message, _MESSAGE_BYTES_MAX).decode("utf-8", "replace")
        message = self._start_error or said
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


def _map_users(pid: int | str, users: list[tuple[int, int, int]], groups: list[tuple[int, int, int]]) -> None:
    for name, found in (("uid_map", users), ("gid_map", groups)):
        with open(f"/proc/{pid}/{name}", "wb") as file:
            file.write("".join(f"{inside} {outside} {count}\n" for inside, outside, count in found).encode())


def _deny_groups() -> None:
    """What the kernel wants of one who is not root, before it maps its group."""
    with open("/proc/self/setgroups", "wb") as file:
        file.write(b"deny")


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
