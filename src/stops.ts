/** Steps that end what was begun, in the order in which it was begun. */
export type Stops = (() => Promise<unknown>)[];

/**
 * Ends first what was begun last, as it may need what was there before it.
 *
 * @throws the first error, with the rest left as it is
 */
export async function stopAll(stops: Stops): Promise<void> {
  for (const stop of stops.toReversed()) await stop();
}
