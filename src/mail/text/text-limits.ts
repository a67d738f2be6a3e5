/** The most characters in an email's subject, whether given or rendered from a template. */
export const longestSubject = 998;

/** The most characters in each of an email's bodies, whether given or rendered from a template. */
export const longestBody = 5 * 1024 * 1024;
