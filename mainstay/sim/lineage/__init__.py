"""Lineage-driven fault injection: only faults that could keep something good from happening, found from what has.

    provenance.py      what each good outcome of a run rests on: its *support*, the places at which a fault could hit it
    hitting_sets.py      the smallest sets of faults that hit all supports which are known of an outcome
    injection.py    run such a set; if all is well again, there is another way, whose support is one more to hit

It ends when a promise is broken, or when no set of so many faults is left that could keep an outcome from happening;
then it says what may be claimed. Who follows which change to which write is not guessed: the journal has it.
"""
