import type { ServerResponse } from 'node:http';

/**
 * Ends an answer that is not whole, so that no client takes it for whole. In HTTP/1.0, which nginx speaks unless told otherwise, the
 * end of the connection is that of the answer, unless it is reset.
 */
export function cutOff(res: ServerResponse): void {
  if (res.req.httpVersion === '1.0') res.socket?.resetAndDestroy();
  else res.destroy();
}
