import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { prepareSandbox } from '../../src/first-screen.ts';
import { readDashboard } from '../../src/http/dashboard-files.ts';
import { adminPassword, startTestNode, type TestNode } from '../support/node.ts';

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** What `t.test` takes: these tests need a browser. */
export const inBrowser = { skip: !existsSync(executablePath) && `no ${executablePath}` };

const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'];
// Whatever a page might ask for, it finds nothing but us.
const alone = [
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost',
];

let launched: Promise<Browser> | undefined;

/** The browser of this process, which is closed when all of its tests have ended. */
function browser(): Promise<Browser> {
  launched ??= chromium.launch({ executablePath, args: [...flags, ...alone] });
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
  await page.getByLabel('Email').fill(email);
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

const cookies = new WeakMap<TestNode, Promise<string>>();

async function cookieOf(node: TestNode): Promise<string> {
  const body = { email: 'admin@example.test', password: adminPassword };
  const { headers } = await node.call('POST', '/api/v1/session', { body });
  return /^sendwright_session=([^;]+)/.exec(headers.get('set-cookie') ?? '')?.[1] ?? '';
}

/** A tab with these pages, of the operator, who is logged in unless it says otherwise. */
export async function view(t: Test, node: TestNode, path = '/', { loggedIn = true } = {}): Promise<Viewed> {
  const context = await (await browser()).newContext({ viewport: { width: 1280, height: 900 } });
  t.teardown(() => context.close());
  if (loggedIn) {
    const cookie = cookies.get(node) ?? cookieOf(node);
    cookies.set(node, cookie);
    await context.addCookies([{ name: 'sendwright_session', value: await cookie, url: node.baseUrl }]);
  }
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // Before the login nobody is logged in, which the browser notes.
    if (message.type() === 'error' && !/401/.test(message.text())) complaints.push(message.text());
  });
  await page.goto(`${node.baseUrl}${path}`);
  if (loggedIn) await page.locator('nav.side').waitFor();
  return { context, page, complaints };
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * What axe finds serious or critical on the page as it is now, in words.
 *
 * @param rules those that are asked for; without them all
 */
export async function barriers(page: Page, rules?: string[]): Promise<string[]> {
  // By the debugger, as the page's own policy lets no script of ours in.
  await page.evaluate(`globalThis.axe ?? (() => { ${axe} })()`);
  return page.evaluate(async (only) => {
    const { axe } = globalThis as unknown as { axe: { run(options: object): Promise<{ violations: Violation[] }> } };
    const { violations } = await axe.run({ resultTypes: ['violations'], ...(only ? { runOnly: only } : {}) });
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`)}`);
  }, rules);
}

interface Violation {
  id: string;
  impact: string;
  nodes: { target: string[]; failureSummary: string }[];
}
