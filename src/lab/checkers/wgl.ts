import { keyOf, type LockModel, type LockOp, type LockState, stepLock } from "./models.ts";

/** What the search found. */
export type WglResult =
  | { readonly verdict: true; readonly steps: number }
  | {
      readonly verdict: false;
      readonly steps: number;
      /** The operation that no order can place by its answer, and the state that was in its way. */
      readonly stuck: LockOp;
      readonly state: LockState;
    }
  | { readonly verdict: "unknown"; readonly steps: number };

interface Node {
  readonly op: LockOp;
  readonly index: number;
  readonly isReturn: boolean;
  /** The other end; a call that may stay open has none. */
  match: Node | undefined;
  previous: Node | undefined;
  next: Node | undefined;
}

/**
 * Looks for an order of the operations, each within its time, that the model allows (Wing and Gong's search with Lowe's
 * memory of what was tried). An operation of unknown outcome may be placed or left out. Intervals are closed: two
 * operations that touch in one instant may take either order. Exponential at worst, hence `maxSteps`.
 */
export function searchOrder(
  ops: readonly LockOp[],
  model: LockModel,
  initial: LockState,
  maxSteps: number,
): WglResult {
  const head = link(ops);
  const placed = new Uint32Array((ops.length + 31) >>> 5);
  const tried = new Set<string>();
  const stack: { readonly node: Node; readonly state: LockState }[] = [];
  let left = ops.filter(({ must }) => must).length;
  let state = initial;
  let node = head.next;
  let steps = 0;
  let best = { left: Infinity, stuck: ops[0], state };
  while (left > 0) {
    steps += 1;
    if (steps > maxSteps) return { verdict: "unknown", steps };
    if (node !== undefined && !node.isReturn) {
      const after = stepLock(model, state, node.op);
      if (after !== null && isNew(placed, node.index, after, tried)) {
        stack.push({ node, state });
        state = after;
        if (node.op.must) left -= 1;
        lift(node);
        node = head.next;
      } else node = node.next;
      continue;
    }
    // An answer comes before its operation was placed: the last placement was wrong.
    if (node !== undefined && left < best.left) best = { left, stuck: node.op, state };
    const last = stack.pop();
    if (last === undefined) {
      const { stuck } = best;
      return stuck === undefined
        ? { verdict: true, steps }
        : { verdict: false, steps, stuck, state: best.state };
    }
    ({ state } = last);
    const { index, op } = last.node;
    placed[index >>> 5] = (placed[index >>> 5] ?? 0) & ~(1 << (index & 31));
    if (op.must) left += 1;
    unlift(last.node);
    node = last.node.next;
  }
  return { verdict: true, steps };
}

/** Marks the operation as placed, unless this state was reached with the same operations before. */
function isNew(placed: Uint32Array, index: number, state: LockState, tried: Set<string>): boolean {
  const word = index >>> 5;
  placed[word] = (placed[word] ?? 0) | (1 << (index & 31));
  const key = `${String.fromCharCode(...halves(placed))}|${keyOf(state)}`;
  if (!tried.has(key)) {
    tried.add(key);
    return true;
  }
  placed[word] = (placed[word] ?? 0) & ~(1 << (index & 31));
  return false;
}

function halves(words: Uint32Array): Uint16Array {
  return new Uint16Array(words.buffer);
}

/** All calls and answers in the order of time; calls first where times are equal, since intervals are closed. */
function link(ops: readonly LockOp[]): Node {
  const nodes: Node[] = [];
  for (const [index, op] of ops.entries()) {
    const call: Node = {
      op,
      index,
      isReturn: false,
      match: undefined,
      previous: undefined,
      next: undefined,
    };
    nodes.push(call);
    if (!op.must) continue;
    call.match = { ...call, isReturn: true, match: call };
    nodes.push(call.match);
  }
  const timeOf = (node: Node): number => (node.isReturn ? node.op.ret : node.op.call);
  nodes.sort((a, b) => {
    const [s, t] = [timeOf(a), timeOf(b)];
    return s === t ? Number(a.isReturn) - Number(b.isReturn) || a.index - b.index : s - t;
  });
  const first = nodes[0];
  const head = { ...(first ?? EMPTY), previous: undefined, next: undefined } as Node;
  let previous = head;
  for (const node of nodes) {
    previous.next = node;
    node.previous = previous;
    previous = node;
  }
  return head;
}

const EMPTY = { index: -1, isReturn: false, match: undefined };

function lift(node: Node): void {
  unlink(node);
  if (node.match !== undefined) unlink(node.match);
}

function unlift(node: Node): void {
  if (node.match !== undefined) relink(node.match);
  relink(node);
}

function unlink(node: Node): void {
  if (node.previous !== undefined) node.previous.next = node.next;
  if (node.next !== undefined) node.next.previous = node.previous;
}

function relink(node: Node): void {
  if (node.previous !== undefined) node.previous.next = node;
  if (node.next !== undefined) node.next.previous = node;
}
