import { type Config, hasSmtpPort } from '../config.ts';
import type { Machine } from '../core/operations/doctor.ts';

/** What the doctor examines of this machine. */
export const machineOf = (config: Config): Machine => ({
  dataDir: config.dataDir,
  embedded: config.databaseUrl === null,
  smtpCertificate: hasSmtpPort(config) ? config.smtp.tls : null,
});
