/** What is wrong with a message that was received, as a sentence that names the header or the part. */
export class MimeError extends Error {
  override readonly name = 'MimeError';
}
