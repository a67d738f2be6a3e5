import { useQuery } from '@tanstack/react-query';
import { api } from '../../data/api.ts';

/** The API keys of the account, of which several pages need the names. */
export const useKeys = () => useQuery({ queryKey: ['keys'], queryFn: () => api.keys.list() });
