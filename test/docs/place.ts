import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { prepareSandbox } from '../../src/node/first-screen.ts';
import { createDatabase } from '../support/db.ts';
import { adminPassword, eventually, startTestNode, testEnv } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { ownEnv } from '../support/process.ts';
import { installCommands } from './commands.ts';
import { openShell, type Shell } from './shell.ts';

/** What a reader has after `npm start`: a service, a terminal, and what the first screen showed. */
export interface Place {
  shell: Shell;
  /** The same place in another terminal, which does not have the first one's variables. */
  anotherTerminal(): Place;
  folder: string;
  /** A text from the documents, and what it is here. */
  here(text: string): string;
  /** Values from the first screen that the reader fills in. */
  printed: Record<string, string>;
  /** Waits for the reader's own endpoint to listen. */
  endpointIsUp(): Promise<unknown>;
}

const repository = resolve(import.meta.dirname, '../..');

/** The service is started once for all documents that are read on it. */
export async function openPlace(t: { teardown(work: () => Promise<void>): void }): Promise<Place> {
  const port = async () => String(await freePort());
  const [http, submission, submissions, endpoint] = [await port(), await port(), await port(), await port()];
  const env = testEnv(await createDatabase(), {
    ADMIN_EMAIL: 'admin@localhost',
    HTTP_PORT: http,
    SUBMISSION_PORT: submission,
    SUBMISSIONS_PORT: submissions,
    ALLOW_PRIVATE_NETWORKS: '127.0.0.0/8',
  });
  const node = await startTestNode(t, env);
  const key = await prepareSandbox(node, undefined);
  const folder = await mkdtemp(join(tmpdir(), 'sendwright-docs-'));
  await furnish(folder);
  await installCommands(t, join(folder, 'bin'), env);
  const { PATH, ...cache } = ownEnv();
  const shells: Shell[] = [];
  const openTerminal = () => {
    const shell = openShell(folder, {
      PATH: `${join(folder, 'bin')}:${PATH}`,
      HOME: folder,
      LANG: 'C.UTF-8',
      ...cache,
    });
    shells.push(shell);
    return shell;
  };
  t.teardown(async () => {
    for (const shell of shells) await shell.close();
    await rm(folder, { recursive: true, force: true });
  });
  const real: Record<string, string> = {
    'http://localhost:3000': node.baseUrl,
    2587: submission,
    2465: submissions,
    8080: endpoint,
  };
  // In one pass: one of our ports may contain the digits of one in the documents.
  const shown = new RegExp(Object.keys(real).join('|'), 'g');
  const place: Place = {
    shell: openTerminal(),
    anotherTerminal: () => ({ ...place, shell: openTerminal() }),
    folder,
    here: (text) => text.replaceAll(shown, (name) => real[name] ?? name),
    printed: { 'the key that npm start printed': key, 'the admin password that npm start printed': adminPassword },
    endpointIsUp: () =>
      eventually(
        () =>
          new Promise<boolean>((answer) => {
            const socket = connect(Number(endpoint), '127.0.0.1', () => answer(true)).on('error', () => answer(false));
            socket.once('close', () => socket.destroy());
          }),
      ),
  };
  return place;
}

/** A project of the reader's own, with our client and nodemailer installed. */
async function furnish(folder: string): Promise<void> {
  for (const name of ['bin', 'node_modules']) await mkdir(join(folder, name));
  await symlink(process.execPath, join(folder, 'bin/node'));
  await symlink(repository, join(folder, 'node_modules/sendwright'));
  await symlink(join(repository, 'node_modules/nodemailer'), join(folder, 'node_modules/nodemailer'));
}
