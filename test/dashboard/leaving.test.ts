import t from 'tap';

/** Those who are asked before the browser closes the tab. */
const warning = new Set<unknown>();
const isHeld = () => warning.size > 0;
Object.assign(globalThis, {
  addEventListener: (type: string, listener: unknown) => type === 'beforeunload' && warning.add(listener),
  removeEventListener: (_type: string, listener: unknown) => warning.delete(listener),
});

interface Tab {
  holdTab(what: string): void;
  freeTab(what: string): void;
  workInTab<Done>(work: () => Promise<Done>): Promise<Done>;
}
// Not before there is something to listen to; and by its path, as the types of a browser are not known here.
const path = '../../src/dashboard/browser/leaving.ts';
const { freeTab, holdTab, workInTab }: Tab = await import(path);

t.test('the browser asks before it closes a tab for as long as any work goes on in it, and not after', async (t) => {
  const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
  t.notOk(isHeld());
  const failing = workInTab(() => first.promise);
  const working = workInTab(() => second.promise);
  t.ok(isHeld());
  second.resolve('done');
  t.equal(await working, 'done');
  t.ok(isHeld(), 'the first goes on');
  first.reject(new Error('it failed'));
  await t.rejects(failing, { message: 'it failed' });
  t.notOk(isHeld(), 'work that failed is over, too');
  holdTab('page');
  await workInTab(async () => undefined);
  t.ok(isHeld(), 'what is unsaved is still there');
  freeTab('page');
  t.notOk(isHeld());
});
