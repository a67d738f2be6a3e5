import { useMemo } from 'react';
import { nonce } from '../nonce.ts';

/** Nothing from anywhere, and no script; beside that the frame is in a sandbox, and takes over the policy of this page. */
const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/** What could lead away from the preview, or pretend to be another page. */
const unwanted = 'script, iframe, frame, frameset, object, embed, base, link, meta, form, noscript, template, portal';

/** Somebody's HTML as the document of a sandboxed frame. It is taken apart as text, where nothing of it can run. */
export function sandboxed(html: string, images: ReadonlyMap<string, string> = new Map()): string {
  // Before it is parsed: this page's policy holds for what is parsed here too, and would report every style and every handler.
  // The mark goes at the end, so nobody who writes an email may know it.
  const mark = `_${crypto.getRandomValues(new Uint32Array(2)).join('_')}_`;
  const marked = html
    .replaceAll(/<style\b/gi, `<style nonce="${nonce}"`)
    .replaceAll(/(?<=[\s"']|[^<]\/)on(?=[a-z])/gi, (on) => mark + on);
  const parsed = new DOMParser().parseFromString(marked, 'text/html');
  for (const element of parsed.querySelectorAll(unwanted)) element.remove();
  // They would not run; so the console stays quiet.
  for (const element of parsed.querySelectorAll('*')) {
    for (const { name } of [...element.attributes])
      if (name.startsWith(mark) || /^on/i.test(name)) element.removeAttribute(name);
  }
  for (const image of parsed.querySelectorAll('img')) {
    const source = (image.getAttribute('src') ?? '').replaceAll(mark, '');
    const inline = /^cid:/i.test(source) ? images.get(source.slice('cid:'.length)) : undefined;
    image.removeAttribute('srcset');
    if (inline) image.setAttribute('src', inline);
    else if (!/^data:image\//i.test(source)) image.removeAttribute('src');
  }
  const head = parsed.createElement('meta');
  head.setAttribute('http-equiv', 'Content-Security-Policy');
  head.setAttribute('content', policy);
  parsed.head.prepend(head);
  // What was a word of a text is one again.
  return `<!doctype html>${parsed.documentElement.outerHTML.replaceAll(mark, '')}`;
}

/** An email as its reader sees it, without what it would load from elsewhere. */
export function Preview({ html, images, title }: { html: string; images?: Map<string, string>; title: string }) {
  const document = useMemo(() => sandboxed(html, images), [html, images]);
  return (
    // Another document in the same frame would be a step of the browser's back button, which then leads nowhere.
    <iframe
      key={document}
      className="preview"
      sandbox=""
      srcDoc={document}
      title={title}
      referrerPolicy="no-referrer"
    />
  );
}

/** The text of an email, as it is. */
export function PlainText({ text }: { text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard
    <pre className="plain" tabIndex={0}>
      {text}
    </pre>
  );
}
