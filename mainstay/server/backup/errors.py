"""What a backup or a restore cannot do."""


class BackupRefused(Exception):
    """It cannot be done, and nothing was changed. The message is for the user, and says what to do."""
