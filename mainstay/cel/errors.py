"""What can be wrong with an expression: when it is compiled, and when it is evaluated."""


class BadExpression(Exception):
    """The expression does not compile. The text is for its author: line, column, and what is wrong there."""


class EvaluationFailed(Exception):
    """The expression has no value for these inputs: a field is missing, a type is wrong, a number overflows."""


class CostExceeded(EvaluationFailed):
    """It could take longer than an evaluation may. It was not begun."""
