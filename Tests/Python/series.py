"""Whether what was measured again and again grew."""

import statistics


def flat(series, name, slack):
    """Whether the median of the last third is no more than a tenth and `slack` above that of the second: (before, later, whether)."""
    values = [sample[name] for sample in series]
    third = len(values) // 3
    if third < 1:
        return None, None, None
    before, after = statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])
    return before, after, after <= before * 1.1 + slack
