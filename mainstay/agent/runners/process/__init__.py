"""Containers as plain processes of this machine, that live on without the agent.

Each container has a *shim*: a small process that is its parent, takes down what it writes, and records how it ended.
The agent only starts shims and looks at what they have written, so it may be killed at any moment.

    agent ──starts──► shim ──starts──► the first process of the container's namespaces, which makes its file system
      │                │    ──starts──► the container's command, in there, and all that it starts
      │                │ writes
      └────reads──► directory of the attempt

    DIRECTORY/agent.lock                       held by the one agent, or other program, that uses the directory
             /lease                            until when at-most-one containers may run: `records.Lease`
             /pods/UID/pod.json                namespace and name, for people
                      /ids                     which users of the machine are the pod's own: `identities`
                      /net                     its network namespace, if it has one: `pod_network`
                      /volumes/NAME/…          what the volumes hold
                      /logs/NAME/ATTEMPT.log   what the container wrote, in the form of the CRI; before that: .1, .2, …
                      /containers/NAME/ATTEMPT/wish.json     what was to be run, and when and how: it was begun
                                              /lock          held exactly as long as a shim lives; who that is
                                              /started.json  the command was, or is just being, executed
                                              /exit.json     how it ended, and that nothing of it is left
                                              /control       a FIFO: what the shim is asked to do
                                              /root/         the container's own directory; links to its mounts
                                              /tmp/, /run/   what it has there
                                              /message       its last message
                                              /shim.err      what the shim had to say before it failed, if ever

**Begun once.** The agent takes the lock, makes `wish.json` durable, and starts the shim, which inherits the locked file
and keeps it. The shim forks, writes `started.json`, and only then lets its child execute the command. So whatever was
killed when, the files say what happened: see `attempts.find`.

Modules: `runner` is what the agent uses, with `attempts` (begin, find, settle), `places`, `volumes`, `logs`,
`sessions`, `cgroups`, `usage`, `pod_network` (with `pod_links`) and `shutdown` doing the parts. `isolation` decides
what a container is kept from, with `identities` (its users) and `seccomp` (its system calls). `shim`, `shim_loop`,
`shim_log`, `rootfs`, `exec_setup`, `session_helper`, `check`, `beneath`, `trees`, `kernel` and `records` also run in
the shims, where memory and start-up count: they import nothing but the cheap part of the standard library, not even
`json` or `signal`; and neither may any package above them.
"""
