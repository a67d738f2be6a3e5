import { defineConfig } from 'prisma/config';

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations' },
  // Generating the client needs no database; migrations are applied in process (src/db/migrate.ts).
  datasource: { url: process.env.DATABASE_URL ?? 'postgres://localhost:5432/unused' },
});
