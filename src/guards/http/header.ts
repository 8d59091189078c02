/**
 * The request header that carries a sequencer: `Ringfence-Sequencer: rf1.<kid>.<payload>.<mac>`, at most 2,048
 * characters of printable ASCII, once per request. Requests that are made under a lease carry it, reads too: what was
 * read without it may be stale. Any case, as with every header.
 */
export const SEQUENCER_HEADER = "Ringfence-Sequencer";
