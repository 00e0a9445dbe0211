// Symbol.asyncDispose, for `await using`. Node.js before 18.18 does not have it, and the helpers of compilers look for it there.

/** Defines it if it is missing, as Node.js does. */
export function defineAsyncDispose(symbols) {
  if (symbols.asyncDispose === undefined) {
    Object.defineProperty(symbols, "asyncDispose", { value: Symbol("Symbol.asyncDispose") });
  }
  return symbols.asyncDispose;
}

export const asyncDispose = defineAsyncDispose(Symbol);
