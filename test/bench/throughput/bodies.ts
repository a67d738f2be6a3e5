import { type Recipe, recipientOf, subjectOf } from './recipe.ts';

/** The number of different texts; every message adds its own words to one of them. */
const written = 64;
const lineLength = 74;

const words =
  `account address after again all already amount and any archive arrive as at available be because been before box bring but by call can cancel card carrier change charge check
city collect come confirm contact copy could customer date day delivery depot details did discount do door down each early email end ever every exchange expect fee few find first follow for
free from full get gift give goods had hand has have help here his hold home hours how if in inside invoice is it item just keep label last late leave left letter like line list look made
mail make many may message minutes month more morning most name near need neighbour new next no not note now number of off offer office on once one only open or order other our out over own
packed page paid parcel part pay people phone pick place please post present price product question quick quite read ready receipt receive refund reply return right route safe same save
season see send sent service several ship shop short sign since size slip so some soon stay step still stock store street such support sure take terms than thank that the their them then
there these they thing this those time to today together tomorrow too track two until up us use van very wait want warehouse was way we week well were what when where which while who why will
window with within without work would write year you your`.split(/\s+/);
const accented = ['café', 'Zürich', '12,50 €', 'Málaga', '– naturally –', 'Göteborg', 'Łódź', '“as new”'];

/** The source of one round's messages; the text has lines, the html is one paragraph per line. */
export interface Bodies {
  html(index: number): string;
  text(index: number): string;
}

/** Half of `bytes` for each body. The same recipe always gives the same result. */
export function bodiesOf(recipe: Recipe): Bodies {
  const half = recipe.bytes / 2;
  const around = textOf(recipe, 0, '').length;
  const texts = Array.from({ length: written }, (_, seed) => prose(seed + 1, half - around));
  const htmlAround = htmlOf(recipe, 0, '').length;
  const htmls = texts.map((_, seed) => paragraphs(prose(seed + 1_001, half - htmlAround), half - htmlAround));
  const own = (index: number) => (recipe.sameBody ? 0 : index);
  return {
    text: (index) => textOf(recipe, own(index), texts[own(index) % written] ?? ''),
    html: (index) => htmlOf(recipe, own(index), htmls[own(index) % written] ?? ''),
  };
}

const greeting = (recipe: Recipe, index: number) => `Hello customer ${index}, about order ${recipe.round}-${index}`;

const textOf = (recipe: Recipe, index: number, middle: string) =>
  `${greeting(recipe, index)}\n\n${wrap(middle)}\n\nTrack it: https://shop.example/orders/${recipe.round}-${index}\n`;

const htmlOf = (recipe: Recipe, index: number, middle: string) =>
  `<!doctype html><html><head><meta charset="utf-8"><title>Order</title></head><body style="margin:0">
<h1 style="font-size:20px">${greeting(recipe, index)}</h1>
${middle}<p><a href="https://shop.example/orders/${recipe.round}-${index}">Track it</a></p>
</body></html>
`;

function paragraphs(text: string, length: number): string {
  const sentences = text.split(/(?<=\.) /);
  let html = '';
  while (sentences.length > 0) {
    const paragraph = `<p style="color:#333333">${sentences.splice(0, 4).join(' ')}</p>\n`;
    if (html.length + paragraph.length > length) break;
    html += paragraph;
  }
  return html;
}

/** Sentences of common words, with an accent now and then, of about this many characters. */
function prose(seed: number, length: number): string {
  let state = seed * 2_654_435_761;
  const draw = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const sentences: string[] = [];
  for (let left = length; left > 0; left -= (sentences.at(-1)?.length ?? 0) + 1) {
    const chosen = Array.from({ length: 6 + draw(12) }, () =>
      draw(80) === 0 ? accented[draw(accented.length)] : words[draw(words.length)],
    ).join(' ');
    sentences.push(`${chosen.charAt(0).toUpperCase()}${chosen.slice(1)}.`);
  }
  return sentences.join(' ').slice(0, Math.max(0, length)).trimEnd();
}

function wrap(text: string): string {
  return text.replace(new RegExp(`(.{1,${lineLength}})(?: |$)`, 'g'), '$1\n').trimEnd();
}

/** The item of a request to the REST API, as JSON. */
export function itemOf(recipe: Recipe, bodies: Bodies, index: number): string {
  return JSON.stringify({
    from: `Shop <${recipe.from}>`,
    to: recipientOf(recipe, index),
    subject: subjectOf(recipe, index),
    html: bodies.html(index),
    text: bodies.text(index),
  });
}

/** The message as an SMTP client submits it, dots stuffed, with its final dot. */
export function submittedOf(recipe: Recipe, bodies: Bodies, index: number): Buffer {
  const boundary = `=_part_${recipe.round}_${index}`;
  const part = (type: string, content: string) =>
    `--${boundary}\nContent-Type: text/${type}; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n${content}\n`;
  const message = `From: Shop <${recipe.from}>
To: ${recipientOf(recipe, index)}
Subject: ${subjectOf(recipe, index)}
Date: ${new Date().toUTCString().replace('GMT', '+0000')}
Message-ID: <${recipe.round}.${index}.${process.pid}@${recipe.from.split('@')[1]}>
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary="${boundary}"

${part('plain', bodies.text(index))}${part('html', bodies.html(index))}--${boundary}--
`;
  return Buffer.from(`${message.replace(/^\./gm, '..').replaceAll('\n', '\r\n')}.\r\n`);
}
