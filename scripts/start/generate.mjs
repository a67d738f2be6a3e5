import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { run } from './child.mjs';
import { findNode } from './launch.mjs';

const stampOf = (root) => path.join(root, 'src', 'generated', '.stamp');

/** True when the database client was generated from the present schema by the present Prisma. */
export function isGenerated(root) {
  if (!fs.existsSync(path.join(root, 'prisma', 'schema.prisma'))) return true;
  return fs.existsSync(stampOf(root)) && fs.readFileSync(stampOf(root), 'utf8') === digestOf(root);
}

/** Runs prisma generate. */
export async function generate(root, progress, lend) {
  const node = findNode(root);
  progress.begin('Generating the database client');
  const digest = digestOf(root);
  fs.mkdirSync(path.dirname(stampOf(root)), { recursive: true });
  fs.rmSync(stampOf(root), { force: true });
  const env = {
    ...process.env,
    // Generating needs no engine, but Prisma would download one; any program that succeeds will do.
    PRISMA_SCHEMA_ENGINE_BINARY:
      process.env.PRISMA_SCHEMA_ENGINE_BINARY ?? ['/bin/true', '/usr/bin/true'].find((file) => fs.existsSync(file)),
    PRISMA_HIDE_UPDATE_MESSAGE: '1',
    CHECKPOINT_DISABLE: '1',
  };
  try {
    await run(node, [path.join(root, 'node_modules', 'prisma', 'build', 'index.js'), 'generate'], {
      cwd: root,
      env,
      lend,
    });
  } catch (error) {
    throw new Error(
      `${(error.output ?? []).join('\n')}\n\nThe database client could not be generated from prisma/schema.prisma: ${error.message}`,
    );
  }
  fs.writeFileSync(stampOf(root), digest);
}

function digestOf(root) {
  const hash = createHash('sha256');
  for (const file of ['prisma/schema.prisma', 'prisma.config.ts', 'node_modules/prisma/package.json']) {
    hash.update(fs.readFileSync(path.join(root, file))).update('\0');
  }
  return hash.digest('hex');
}
