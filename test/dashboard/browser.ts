import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { readDashboard } from '../../src/http/dashboard-files.ts';
import { prepareSandbox } from '../../src/node/first-screen.ts';
import { adminPassword, eventually, startTestNode, type TestNode } from '../support/node.ts';

/** The same engine without windows takes a quarter less of a processor's time. */
const [withoutWindows, wholeBrowser] = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'] as const;
const executablePath = process.env.CHROMIUM ?? (existsSync(withoutWindows) ? withoutWindows : wholeBrowser);

/** What `t.test` takes: these tests need a browser. */
export const inBrowser = { skip: !existsSync(executablePath) && `no ${executablePath}` };

const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'];
// Whatever a page might ask for, it finds nothing but us.
const alone = [
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost',
];
// Each tab, and each preview in it, would be a process of its own, which costs more than what it shows.
const thrifty = [
  '--in-process-gpu',
  '--process-per-site',
  '--disable-site-isolation-trials',
  '--disable-features=IsolateSandboxedIframes,IsolateOrigins,site-per-process,SpareRendererForSitePerProcess,PaintHolding,OptimizationHints,MediaRouter',
];

let launched: Promise<Browser> | undefined;

/** The browser of this process, which is closed when all of its tests have ended. */
function browser(): Promise<Browser> {
  const launch = () => chromium.launch({ executablePath, args: [...flags, ...alone, ...thrifty] });
  // Where nothing of it is in memory yet it has been seen to crash as it begins.
  launched ??= launch().catch(launch);
  return launched;
}
t.teardown(async () => (await launched)?.close());

const root = fileURLToPath(new URL('../../', import.meta.url));
let built = false;

export type DashboardNode = TestNode & { key: string };

/** A node in the sandbox, as `npm start` leaves it, with its pages. */
export async function startDashboard(
  t: { teardown(work: () => Promise<void>): void },
  env: Record<string, string> = {},
): Promise<DashboardNode> {
  if (!built) {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/build-dashboard.mjs'], { cwd: root });
    if (status !== 0) throw new Error(String(stderr));
    built = true;
  }
  const node = await startTestNode(t, env, { dashboard: await readDashboard() });
  return { ...node, key: await prepareSandbox(node, undefined) };
}

let shared: Promise<DashboardNode> | undefined;

/** The one that all tests of this process use which do not mind what others have sent. */
export function sharedDashboard(): Promise<DashboardNode> {
  shared ??= startDashboard(t, { ALLOW_PRIVATE_NETWORKS: 'true' });
  return shared;
}

/** Types the login, as its owner would. */
export async function logIn(page: Page, email: string, password: string): Promise<void> {
  await page.getByLabel('Email', { exact: true }).fill(email);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.locator('nav.side').waitFor();
}

export interface Viewed {
  context: BrowserContext;
  page: Page;
  /** What the page said to its console that it should not have: errors, and what its policy forbade. */
  complaints: string[];
}

/** As wide as a small laptop; nobody looks at the pixels, which are as few as can be. */
const newContext = async () =>
  (await browser()).newContext({
    viewport: { width: 1280, height: 900 },
    deviceScaleFactor: 0.25,
    reducedMotion: 'reduce',
  });

const ofOperators = new WeakMap<TestNode, Promise<BrowserContext>>();

/** A browser in which the operator of the node is logged in. */
async function ofOperator(node: TestNode): Promise<BrowserContext> {
  const body = { email: 'admin@example.test', password: adminPassword };
  const [context, { headers }] = await Promise.all([newContext(), node.call('POST', '/api/v1/session', { body })]);
  const value = /^sendwright_session=([^;]+)/.exec(headers.get('set-cookie') ?? '')?.[1] ?? '';
  await context.addCookies([{ name: 'sendwright_session', value, url: node.baseUrl }]);
  // With its last tab the browser ends the process that shows the site; the next tab would start and warm up another one, which is more than half of a view.
  await (await context.newPage()).goto(`${node.baseUrl}/healthz`);
  return context;
}

/** A tab with these pages: of the operator's browser, or of one where nobody has logged in yet. */
export async function view(t: Test, node: TestNode, path = '/', { loggedIn = true } = {}): Promise<Viewed> {
  const known = loggedIn ? (ofOperators.get(node) ?? ofOperator(node)) : newContext();
  if (loggedIn) ofOperators.set(node, known);
  const context = await known;
  const page = await context.newPage();
  t.teardown(async () => {
    // What a page still asks for at its end fails in the handlers of its routes, and would end the tests.
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await (loggedIn ? page.close() : context.close());
  });
  page.setDefaultTimeout(90_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // Before the login nobody is logged in, which the browser notes. It also notes each script that it blocks in the frame of a
    // preview, and `clock.install` tries one in every frame: that none runs there has tests of its own (hostile-text). A full machine
    // may answer a call with 503, which the page then makes again: what people see of that has tests of its own (slow-server).
    const isExpected = /401|status of 503|^Blocked script execution in 'about:srcdoc'/.test(message.text());
    if (message.type() === 'error' && !isExpected) complaints.push(message.text());
  });
  await page.goto(`${node.baseUrl}${path}`);
  if (loggedIn) await page.locator('nav.side').waitFor();
  return { context, page, complaints };
}

/** Runs in the page: looking at each change is sooner there than asking now and then, and costs less. */
const untilWhole = (holds: string) => `new Promise((resolve, reject) => {
  const isWhole = () => {
    const main = document.querySelector('main');
    if (!main?.querySelector('h1') || main.querySelector('[aria-busy=true]')) return false;
    const fields = [...document.querySelectorAll('input, textarea')].map(({ value }) => value);
    const hidden = [...document.querySelectorAll('[title], iframe')].map(({ title, srcdoc }) => title + ' ' + srcdoc);
    return [document.body.innerText, ...fields, ...hidden].join(' ').includes(${JSON.stringify(holds)});
  };
  // What follows from the last change, such as another question to the server, has begun a frame later.
  const look = () => isWhole() && requestAnimationFrame(() => setTimeout(() => isWhole() && end(resolve)));
  const observer = new MutationObserver(look);
  const tooLong = setTimeout(() => end(reject, location + ' is not whole'), 90_000);
  const end = (settle, value) => {
    clearTimeout(tooLong);
    observer.disconnect();
    settle(value);
  };
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  look();
})`;

/** Waits until nothing that is shown is still asked for. @param holds what has to be on the page, were it in a field or a frame */
export async function whole(page: Page, holds = ''): Promise<void> {
  await page.evaluate(untilWhole(holds));
}

/** Goes there as a link would, without loading the page anew, which is what takes the time. */
export async function go(page: Page, path: string, holds?: string): Promise<void> {
  await page.evaluate(`history.pushState(null, '', ${JSON.stringify(path)})`);
  await whole(page, holds);
}

/** Runs in the page: whether it asks for this path when it is looked at again. What it is asking for just then it does not ask for twice. */
const asksFor = (path: string) => `new Promise((resolve) => {
  const ask = window.fetch;
  let asked = false;
  window.fetch = (input, init) => {
    asked ||= new URL(input.url ?? input, location).pathname === ${JSON.stringify(path)};
    return ask(input, init);
  };
  window.dispatchEvent(new Event('visibilitychange'));
  setTimeout(() => {
    window.fetch = ask;
    resolve(asked);
  });
})`;

/** As it is looked at again, until it has asked for that, as it shall: what is younger than five seconds it does not ask for. */
export const lookAgain = (page: Page, path = '/api/v1/session') =>
  eventually(() => page.evaluate<boolean>(asksFor(path)));

/** Keys that mean something within a second of each other: a busy machine may take longer than that from one call to the next. */
export async function pressAtOnce(page: Page, ...keys: string[]): Promise<void> {
  await Promise.all(keys.map((key) => page.keyboard.press(key)));
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * What axe finds serious or critical on the page as it is now, in words.
 *
 * @param rules those that are asked for; without them all
 */
export async function barriers(page: Page, rules?: string[]): Promise<string[]> {
  // By the debugger, as the page's own policy lets no script of ours in.
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(`(() => { ${axe} })()`);
  return page.evaluate(async (only) => {
    const { axe } = globalThis as unknown as { axe: { run(options: object): Promise<{ violations: Violation[] }> } };
    const { violations } = await axe.run({ resultTypes: ['violations'], ...(only ? { runOnly: only } : {}) });
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`)}`);
  }, rules);
}

/** Of all rules of axe those that other colors can break. */
const rulesOfColor = ['color-contrast', 'link-in-text-block'];

/** The same, light and dark; what is dark is the same page in other colors. */
export async function barriersInBoth(page: Page): Promise<string[]> {
  const found = [];
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.locator(`html[data-mantine-color-scheme=${colorScheme}]`).waitFor();
    const barred = await barriers(page, colorScheme === 'dark' ? rulesOfColor : undefined);
    found.push(...barred.map((words) => `${colorScheme}: ${words}`));
  }
  return found;
}

interface Violation {
  id: string;
  impact: string;
  nodes: { target: string[]; failureSummary: string }[];
}
