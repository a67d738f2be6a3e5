/** Lets a style element through the page's Content-Security-Policy. */
export const nonce = document.querySelector<HTMLMetaElement>('meta[name="nonce"]')?.nonce ?? '';
