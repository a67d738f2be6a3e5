/** A defect of a received message, in a sentence that names the header or the part. */
export class MimeError extends Error {
  override readonly name = 'MimeError';
}
