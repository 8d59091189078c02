/** A value that follows a chain of asynchronous calls; `request` uses it to see that it is nested in itself. */
export interface AsyncContext<T> {
  /** Runs `fn` with `value` visible to it and to everything that it starts. */
  run<R>(value: T, fn: () => R): R;
  get(): T | undefined;
}
