import { call } from '../../support/node.ts';

/**
 * Reads the log with one filter over HTTP, one call after the other.
 *
 * ¶ @param unmeasured calls before the measured ones: the first plans and fills caches
 * @returns how many emails match, and what each call took in ms, shortest first @throws Error for any answer but 200
 */
export async function timeFilter(
  { baseUrl, key }: { baseUrl: string; key: string },
  query: string,
  calls: number,
  unmeasured = 0,
): Promise<{ matching: number; times: number[] }> {
  const times: number[] = [];
  let matching = 0;
  for (let done = 0; done < unmeasured + calls; done += 1) {
    const began = performance.now();
    const { status, body } = await call(baseUrl, 'GET', `/api/v1/emails?${query}`, { key });
    const ms = performance.now() - began;
    if (status !== 200) throw new Error(`${query}: ${JSON.stringify(body)}`);
    matching = body.count;
    if (done >= unmeasured) times.push(ms);
  }
  return { matching, times: times.sort((a, b) => a - b) };
}
