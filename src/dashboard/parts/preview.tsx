import { useWindowEvent } from '@mantine/hooks';
import { useMemo, useState } from 'react';
import { nonce } from '../browser/nonce.ts';

/** Loads nothing and runs no script. The frame is sandboxed as well, and inherits this page's policy. */
const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/** Elements that could navigate away from the preview, or imitate another page. */
const unwanted = 'script, iframe, frame, frameset, object, embed, base, link, meta, form, noscript, template, portal';

/** Turns untrusted HTML into the document of a sandboxed frame. It is parsed inertly, so nothing in it can run. */
function sandboxed(html: string, images: ReadonlyMap<string, string> = new Map()): string {
  // Before parsing: this page's policy applies to the parsed document too, and would report every style and handler.
  // The marker is random: all markers are removed at the end, so an author who knew it could hide code behind it.
  const mark = `_${crypto.getRandomValues(new Uint32Array(2)).join('_')}_`;
  const marked = html
    .replaceAll(/<style\b/gi, `<style nonce="${nonce}"`)
    .replaceAll(/(?<=[\s"']|[^<]\/)on(?=[a-z])/gi, (on) => mark + on);
  const parsed = new DOMParser().parseFromString(marked, 'text/html');
  for (const element of parsed.querySelectorAll(unwanted)) element.remove();
  // Handlers would not run anyway; removing them keeps the console quiet.
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
  // Removing the markers also restores the words of the text that they were put into.
  return `<!doctype html>${parsed.documentElement.outerHTML.replaceAll(mark, '')}`;
}

/** An email as its reader sees it, without anything that it would load from elsewhere. */
export function Preview({ html, images, title }: { html: string; images?: Map<string, string>; title: string }) {
  const document = useMemo(() => sandboxed(html, images), [html, images]);
  const [chosen, setChosen] = useState(false);
  // Whoever scrolls it by the keyboard sees that it has that: a frame takes it from the window, and matches no `:focus`.
  const look = () => setChosen(globalThis.document.activeElement?.matches('.preview') ?? false);
  // Firefox tells first, and moves the focus then.
  useWindowEvent('blur', () => void setTimeout(look));
  useWindowEvent('focus', () => setChosen(false));
  return (
    // A new frame per document: changing the document of one frame would add a useless step to the browser's history.
    <iframe
      key={document}
      className="preview"
      data-chosen={chosen || undefined}
      sandbox=""
      srcDoc={document}
      title={title}
      referrerPolicy="no-referrer"
    />
  );
}

/** The plain text of an email. */
export function PlainText({ text }: { text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard
    <pre className="plain" tabIndex={0}>
      {text}
    </pre>
  );
}
