import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Runs `work` while no other process does. The file names who holds the lock and which child works for it, so that the
 * lock of a process that was killed is taken over, and the child that it left behind is stopped first. `work` gets a
 * function that enters a child into the lock.
 */
export async function withLock(file, progress, work) {
  await acquire(file, progress);
  const release = () => fs.rmSync(file, { force: true });
  process.on('exit', release);
  try {
    const write = (child) => fs.writeFileSync(file, JSON.stringify({ holder: identify(process.pid), child }));
    return await work((pid) => write(identify(pid)));
  } finally {
    process.off('exit', release);
    release();
  }
}

async function acquire(file, progress) {
  let waiting = false;
  for (;;) {
    if (create(file)) return;
    const { holder, child } = read(file);
    if (isRunning(holder)) {
      if (!waiting) progress.begin(`Waiting for process ${holder.pid}, which is installing the packages`);
      waiting = true;
      await sleep(200);
      continue;
    }
    await stopGroup(child);
    fs.rmSync(file, { force: true });
    if (!create(file)) continue;
    // Another process may have judged the old lock stale as well and have removed ours: the last one has it.
    await sleep(100);
    if (read(file).holder?.pid === process.pid) return;
  }
}

function create(file) {
  try {
    fs.writeFileSync(file, JSON.stringify({ holder: identify(process.pid) }), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

function read(file) {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch {
    // Gone by now, or being written at this moment, which a process does not survive for long without finishing it.
    const age = Date.now() - (fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    return age < 2000 ? { holder: identify(process.pid) } : {};
  }
}

/** The child leads a process group of its own, so that what it has started ends with it. */
async function stopGroup(child) {
  if (!isRunning(child)) return;
  process.kill(-child.pid, 'SIGTERM');
  for (let waited = 0; waited < 5000 && isRunning(child); waited += 50) await sleep(50);
  if (isRunning(child)) process.kill(-child.pid, 'SIGKILL');
}

/** A process by its id and, as ids are used again, by the moment it started (where the system tells). */
function identify(pid) {
  return { pid, started: startTime(pid) };
}

function isRunning(process_) {
  if (!process_) return false;
  try {
    process.kill(process_.pid, 0);
  } catch (error) {
    if (error.code !== 'EPERM') return false;
  }
  return startTime(process_.pid) === process_.started;
}

function startTime(pid) {
  try {
    const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
    return fields[0] === 'Z' ? 'ended' : fields[19];
  } catch {
    return undefined;
  }
}
