"""What can go wrong with a journal, named for what to do next. A gap is none of these: it is part of an answer."""


class JournalError(Exception):
    """The base of all of them."""


class JournalInUse(JournalError):
    """Another process writes this journal. Stop that one, or use another directory. Reading needs no permission."""


class HistoryAhead(JournalError):
    """The journal has revisions that the store has not reached: the store was restored from an older backup.

    The same revisions will now be given to other changes. Start the process again: it sets this history aside and
    begins a new one (former_epoch.py).
    """


class Missed(JournalError):
    """Raised by a source: the changes after the revision that was asked for are no longer all there."""


class SourceUnavailable(JournalError):
    """Raised by a source: it cannot be reached just now. The recorder tries again."""


class JournalUnreachable(JournalError):
    """The journal is behind a server that does not answer, or does not let us read it. Says which, and what to do."""
